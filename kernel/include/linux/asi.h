/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: memory with one user's data is not mapped while the
 * kernel runs for another user. See Documentation/mm/asi.rst.
 */
#ifndef _LINUX_ASI_H
#define _LINUX_ASI_H

#include <linux/types.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

#include <linux/jump_label.h>
#include <linux/percpu-defs.h>
#include <linux/pgtable.h>

struct mm_struct;
struct page;

DECLARE_STATIC_KEY_FALSE(asi_key);
DECLARE_STATIC_KEY_FALSE(asi_clear_key);
DECLARE_STATIC_KEY_FALSE(asi_clean_key);

/**
 * asi_enabled() - Is sensitive memory kept apart from other memory?
 *
 * False until late in boot, even with asi=on.
 *
 * Return: true if so.
 */
static __always_inline bool asi_enabled(void)
{
	return static_branch_unlikely(&asi_key);
}

/**
 * asi_clears() - Is memory cleared when it is freed?
 *
 * Sensitive memory only, and all memory for a moment while isolation starts.
 *
 * Return: true if so.
 */
static __always_inline bool asi_clears(void)
{
	return static_branch_unlikely(&asi_clear_key);
}

/**
 * asi_gives_clean() - Is sensitive memory already clean when allocated?
 *
 * If so, memory allocated with __GFP_SENSITIVE need not be cleared.
 *
 * Return: true if so. While there are processes, the same as asi_clears().
 */
static __always_inline bool asi_gives_clean(void)
{
	return static_branch_unlikely(&asi_clean_key);
}

bool asi_requested(void);
void asi_refuse(const char *why);
void asi_sync_direct_map(unsigned long start, unsigned long end);

/**
 * enum asi_switch - Events in switches between address spaces.
 * @ASI_ENTER: entered user mode or a guest from the unrestricted address space.
 * @ASI_REENTER: returned to the restricted address space after an NMI left it.
 * @ASI_SWITCH_MM: switched from one restricted address space to another.
 * @ASI_EXIT_FAULT: left because of a page fault.
 * @ASI_EXIT_SWITCH_MM: left to load page tables without a process.
 * @ASI_EXIT_TEMPORARY_MM: left for a temporary mm of the kernel.
 * @ASI_EXIT_KEXEC: left for another kernel.
 * @ASI_EXIT_SUSPEND: left to suspend.
 * @ASI_IBPB: branch predictors flushed, on exit or for another process. This
 *	and the following flushes are counted even if the CPU lacks the
 *	instruction.
 * @ASI_VERW: CPU buffers flushed on entry.
 * @ASI_L1D: L1 data cache flushed on entry.
 * @ASI_EPHMAP: pages were mapped in a window instead of leaving, see
 *	ephmap_open().
 * @ASI_EPHMAP_PAGE: a page was mapped in a window; closing it flushes the page.
 * @ASI_UNRESTRICTED: user mode ran unrestricted. Must be 0; counted with
 *	CONFIG_ASI_DEBUG only.
 * @ASI_NR_SWITCHES: number of events.
 */
enum asi_switch {
	ASI_ENTER,
	ASI_REENTER,
	ASI_SWITCH_MM,
	ASI_EXIT_FAULT,
	ASI_EXIT_SWITCH_MM,
	ASI_EXIT_TEMPORARY_MM,
	ASI_EXIT_KEXEC,
	ASI_EXIT_SUSPEND,
	ASI_IBPB,
	ASI_VERW,
	ASI_L1D,
	ASI_EPHMAP,
	ASI_EPHMAP_PAGE,
	ASI_UNRESTRICTED,
	ASI_NR_SWITCHES
};

DECLARE_PER_CPU(unsigned long [ASI_NR_SWITCHES], asi_switches);

/* === Architecture interface ============================================= */

/**
 * arch_asi_init() - Create an empty restricted direct map.
 *
 * Context: boot, may sleep.
 * Return: NULL, or the reason why it is impossible.
 */
const char *arch_asi_init(void);

/**
 * arch_asi_choose_flushes() - Choose what to flush on switches.
 *
 * Context: boot, before any restricted address space is entered.
 */
void arch_asi_choose_flushes(void);

/**
 * arch_asi_flushes() - Describe what is flushed on switches.
 *
 * Context: boot.
 * Return: text for the log.
 */
const char *arch_asi_flushes(void);

/**
 * arch_asi_populate() - Allocate page tables of the restricted direct map.
 * @start: start of a range of the direct map.
 * @end: its end.
 *
 * Memory without page tables is never mapped there.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int arch_asi_populate(unsigned long start, unsigned long end);

/**
 * arch_asi_set() - Map a block in the restricted direct map, or unmap it.
 * @addr: its address in the direct map, aligned to PMD_SIZE.
 * @map: whether to map it, in the same way as the direct map does.
 *
 * Does not flush TLBs.
 *
 * Context: any but NMI; the caller serialises calls for the same block.
 */
void arch_asi_set(unsigned long addr, bool map);

/**
 * enum asi_entry - State of a block in the restricted direct map.
 * @ASI_UNMAPPED: not mapped.
 * @ASI_MAPPED: mapped as in the direct map.
 * @ASI_STALE: differs from the direct map.
 */
enum asi_entry {
	ASI_UNMAPPED,
	ASI_MAPPED,
	ASI_STALE,
};

/**
 * arch_asi_get() - Get the state of a block in the restricted direct map.
 * @addr: its address in the direct map, aligned to PMD_SIZE.
 *
 * Context: as arch_asi_set().
 * Return: one of enum asi_entry.
 */
enum asi_entry arch_asi_get(unsigned long addr);

/**
 * arch_asi_aliases() - Count freed pages that the kernel image still maps.
 *
 * Freed pages may become sensitive memory.
 *
 * Context: may sleep.
 * Return: the number of pages; 0 before any part of the image is freed.
 */
unsigned long arch_asi_aliases(void);

/**
 * arch_asi_pgd() - Get the restricted page tables of a process.
 * @mm: the mm of the process.
 *
 * Return: the top-level table, or NULL if there is none.
 */
pgd_t *arch_asi_pgd(struct mm_struct *mm);

/* === Ephemeral mappings ================================================= */

/* Maximum number of pages in a window. */
#define EPHMAP_PAGES	32

/**
 * struct ephmap - A window in which pages are mapped for the current process.
 * @pte: its page table entries.
 * @addr: its first address.
 * @nr: number of pages mapped in it.
 *
 * Other threads of the process may read the mapped pages, too. So a page may
 * only be mapped if all of it belongs to the process.
 */
struct ephmap {
	pte_t *pte;
	unsigned long addr;
	unsigned int nr;
};

/**
 * ephmap_open() - Open a window.
 * @map: receives the window.
 *
 * Fails if this CPU is not restricted, or if other CPUs run threads of the
 * process. Then use kmap_local_page() and the like.
 *
 * Context: task, interrupts on. Until ephmap_close(), do not sleep, and access
 * user memory only with page faults disabled.
 * Return: true, or false if there is no window and nothing to close.
 */
bool ephmap_open(struct ephmap *map);

/**
 * ephmap_add() - Map pages in a window.
 * @map: the window.
 * @page: the first page.
 * @nr: number of pages; at most EPHMAP_PAGES in a window.
 *
 * Context: between ephmap_open() and ephmap_close().
 * Return: their address, valid in both address spaces; NULL if one of them has
 * a protection key, which must not be mapped without it.
 */
void *ephmap_add(struct ephmap *map, struct page *page, unsigned int nr);

/**
 * ephmap_close() - Close a window and unmap its pages.
 * @map: the window.
 *
 * Context: after ephmap_open(). May wait for other CPUs.
 */
void ephmap_close(struct ephmap *map);

#else

#define asi_enabled()	false
#define asi_clears()	false
#define asi_gives_clean()	false

static inline bool asi_requested(void)
{
	return false;
}

static inline void asi_sync_direct_map(unsigned long start, unsigned long end)
{
}

#endif

#endif /* _LINUX_ASI_H */
