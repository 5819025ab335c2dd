/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation: what one user's data is in need not be mapped while
 * the kernel runs for another. See Documentation/mm/asi.rst.
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
 * False until late in boot, also with asi=on.
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
 * All of it at first, and later what is sensitive.
 *
 * Return: true if so.
 */
static __always_inline bool asi_clears(void)
{
	return static_branch_unlikely(&asi_clear_key);
}

/**
 * asi_gives_clean() - Is sensitive memory clean when it is allocated?
 *
 * Then nobody needs to clear what he has got with __GFP_SENSITIVE.
 *
 * Return: true if so. Always, when there are processes, if asi_clears().
 */
static __always_inline bool asi_gives_clean(void)
{
	return static_branch_unlikely(&asi_clean_key);
}

bool asi_requested(void);
void asi_refuse(const char *why);
void asi_sync_direct_map(unsigned long start, unsigned long end);

/**
 * enum asi_switch - What is counted of switches between address spaces.
 * @ASI_ENTER: user mode was entered, and the address space had been left.
 * @ASI_REENTER: it was left in an NMI.
 * @ASI_EXIT_FAULT: left, as something was not mapped.
 * @ASI_SWITCH_MM: that of another process was entered, without leaving.
 * @ASI_EXIT_SWITCH_MM: left, for the page tables of no process.
 * @ASI_EXIT_TEMPORARY_MM: left, for an address space of the kernel's own.
 * @ASI_EXIT_KVM: left, for a guest.
 * @ASI_EXIT_KEXEC: left, for another kernel.
 * @ASI_EXIT_SUSPEND: left, to sleep.
 * @ASI_IBPB: branch predictors flushed, when leaving or for another process.
 *	This and the following are counted also where the CPU has no instruction
 *	for it.
 * @ASI_VERW: buffers flushed, when entering.
 * @ASI_L1D: the first-level data cache flushed, when entering.
 * @ASI_EPHMAP: not left, as pages were mapped in a window, see ephmap_open().
 * @ASI_EPHMAP_PAGE: a page was mapped in one, and is flushed when that is closed.
 * @ASI_UNRESTRICTED: user mode had not been restricted. Must be 0; counted
 *	with CONFIG_ASI_DEBUG only.
 * @ASI_NR_SWITCHES: their number.
 */
enum asi_switch {
	ASI_ENTER,
	ASI_REENTER,
	ASI_SWITCH_MM,
	ASI_EXIT_FAULT,
	ASI_EXIT_SWITCH_MM,
	ASI_EXIT_TEMPORARY_MM,
	ASI_EXIT_KVM,
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

/* === What the architecture does ========================================= */

/**
 * arch_asi_init() - Make the restricted direct map, with nothing in it.
 *
 * Context: boot, may sleep.
 * Return: NULL, or why it cannot be.
 */
const char *arch_asi_init(void);

/**
 * arch_asi_choose_flushes() - Find out what to flush with address spaces.
 *
 * Context: boot, before any is entered.
 */
void arch_asi_choose_flushes(void);

/**
 * arch_asi_flushes() - What is flushed when address spaces are switched?
 *
 * Context: boot.
 * Return: in words, for the log.
 */
const char *arch_asi_flushes(void);

/**
 * arch_asi_populate() - Make room in the restricted direct map.
 * @start: start of a range of the direct map.
 * @end: its end.
 *
 * What has no room is never mapped there.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int arch_asi_populate(unsigned long start, unsigned long end);

/**
 * arch_asi_set() - Map a block in the restricted direct map, or unmap it.
 * @addr: where it is in the direct map, aligned to PMD_SIZE.
 * @map: what to do. The mapping is that of the direct map itself.
 *
 * Does not flush TLBs.
 *
 * Context: any but NMI; calls for one block at a time only.
 */
void arch_asi_set(unsigned long addr, bool map);

/**
 * enum asi_entry - What the restricted direct map has of a block.
 * @ASI_UNMAPPED: nothing.
 * @ASI_MAPPED: what the direct map has.
 * @ASI_STALE: something else.
 */
enum asi_entry {
	ASI_UNMAPPED,
	ASI_MAPPED,
	ASI_STALE,
};

/**
 * arch_asi_get() - What has the restricted direct map of a block?
 * @addr: where it is in the direct map, aligned to PMD_SIZE.
 *
 * Context: as arch_asi_set().
 * Return: one of enum asi_entry.
 */
enum asi_entry arch_asi_get(unsigned long addr);

/**
 * arch_asi_aliases() - How much of the image was freed, and is mapped still?
 *
 * What is freed may become sensitive memory.
 *
 * Context: may sleep.
 * Return: the number of pages. 0 before anything of it is freed.
 */
unsigned long arch_asi_aliases(void);

/**
 * arch_asi_pgd() - The restricted page tables of a process.
 * @mm: that of the process.
 *
 * Return: the top-level table, or NULL if there are none.
 */
pgd_t *arch_asi_pgd(struct mm_struct *mm);

/* === Memory of a process, mapped for a moment =========================== */

/* Pages that can be mapped at a time. */
#define EPHMAP_PAGES	32

/**
 * struct ephmap - A window, in which pages are mapped for the current process.
 * @pte: its page table entries.
 * @addr: its first address.
 * @nr: pages in it.
 *
 * What is mapped there may be read by others of the same process, too. So it
 * must be what that may know anyhow, to the end of each page.
 */
struct ephmap {
	pte_t *pte;
	unsigned long addr;
	unsigned int nr;
};

/**
 * ephmap_open() - Open a window.
 * @map: receives what it is.
 *
 * There is none if this CPU is not restricted, or if other CPUs run threads of
 * the process. Then use kmap_local_page() and the like.
 *
 * Context: task, interrupts on. Do not sleep until ephmap_close(), nor access
 * memory of users but with page faults disabled.
 * Return: true, or false if there is no window and nothing to be closed.
 */
bool ephmap_open(struct ephmap *map);

/**
 * ephmap_add() - Map pages in a window.
 * @map: the window.
 * @page: the first.
 * @nr: how many. Altogether at most EPHMAP_PAGES.
 *
 * Context: between ephmap_open() and ephmap_close().
 * Return: their address, which is good in both address spaces.
 */
void *ephmap_add(struct ephmap *map, struct page *page, unsigned int nr);

/**
 * ephmap_close() - Close a window, with what is mapped in it.
 * @map: the window.
 *
 * Context: after ephmap_open(). Other CPUs may be waited for.
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
