/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Protection keys for kernel memory: levels, guards, tagged memory.
 *
 * This header is pulled in by the page table helpers of every architecture
 * that has kpkeys: keep it small. See Documentation/mm/kpkeys.rst.
 */
#ifndef _LINUX_KPKEYS_H
#define _LINUX_KPKEYS_H

#include <linux/build_bug.h>
#include <linux/cleanup.h>
#include <linux/jump_label.h>
#include <linux/types.h>

struct page;

/*
 * A level names what kernel code may write; the architecture translates it
 * into a value of its pkey register. Every level can write untagged memory.
 */
#define KPKEYS_LVL_DEFAULT	0	/* every tagged page is read-only */
#define KPKEYS_LVL_PGTABLES	1	/* page tables are writable as well */

/* "The register was not written": never a value of a pkey register. */
#define KPKEYS_PKEY_REG_INVAL	(~0ULL)

#ifdef CONFIG_ARCH_HAS_KPKEYS
#include <asm/kpkeys.h>
#else
#include <asm-generic/kpkeys.h>
#endif

/* === Levels ============================================================= */

#ifdef CONFIG_KPKEYS_STATS
void kpkeys_count_switch(bool nested);
#else
static inline void kpkeys_count_switch(bool nested) { }
#endif

#ifdef CONFIG_KPKEYS_DEBUG
void kpkeys_assert_default(u64 pkey_reg);
void kpkeys_assert_current_default(void);
#else
static inline void kpkeys_assert_default(u64 pkey_reg) { }
static inline void kpkeys_assert_current_default(void) { }
#endif

#ifdef CONFIG_ARCH_HAS_KPKEYS
/**
 * kpkeys_set_level() - Raise the current CPU to a kpkeys level.
 * @level: one of KPKEYS_LVL_*, a compile-time constant.
 *
 * Levels do not stack: the level may be raised from the default only, and
 * setting the level that is in force already does nothing. The caller must not
 * allocate memory or sleep before the matching kpkeys_restore_pkey_reg(); a
 * context switch in between returns at the default level.
 *
 * Always inlined, and the value written is an immediate operand, so that no
 * function exists which would set the register to a value found in memory.
 *
 * Context: any, IRQs and NMIs included. The caller has checked that
 * arch_kpkeys_enabled().
 * Return: the previous value of the pkey register, or KPKEYS_PKEY_REG_INVAL if
 * @level was in force already.
 */
static __always_inline u64 kpkeys_set_level(const int level)
{
	u64 prev = arch_kpkeys_read_reg();

	BUILD_BUG_ON(!__builtin_constant_p(level));

	if (prev == arch_kpkeys_level_reg(level)) {
		kpkeys_count_switch(true);
		return KPKEYS_PKEY_REG_INVAL;
	}

	kpkeys_assert_default(prev);
	kpkeys_count_switch(false);
	arch_kpkeys_write_level(level);
	return prev;
}

/**
 * kpkeys_restore_pkey_reg() - Undo kpkeys_set_level().
 * @pkey_reg: what kpkeys_set_level() returned.
 *
 * @pkey_reg may have been spilled to the stack, where an arbitrary write
 * reaches it. It therefore only tells whether there is something to undo: what
 * is written is the constant of the default level, the only one from which
 * kpkeys_set_level() can have raised.
 *
 * Context: as kpkeys_set_level().
 */
static __always_inline void kpkeys_restore_pkey_reg(u64 pkey_reg)
{
	if (pkey_reg == KPKEYS_PKEY_REG_INVAL)
		return;

	arch_kpkeys_write_level(KPKEYS_LVL_DEFAULT);
}
#endif /* CONFIG_ARCH_HAS_KPKEYS */

/**
 * KPKEYS_GUARD() - Define a guard that raises the level for a scope.
 * @_name: name of the guard, to be used with guard() and scoped_guard().
 * @_level: the level to raise to, a compile-time constant.
 * @_enabled: expression telling whether the feature that owns the level is on;
 *	if it is false the guard does nothing.
 *
 * The guard of a feature stands in the header of its subsystem. Return paths
 * and break statements leave the scope at the level it was entered with.
 */
#define KPKEYS_GUARD(_name, _level, _enabled)				\
	DEFINE_CLASS(_name, u64, kpkeys_restore_pkey_reg(_T),		\
		     (_enabled) ? kpkeys_set_level(_level) :		\
				  KPKEYS_PKEY_REG_INVAL, void)		\
	DEFINE_CLASS_IS_UNCONDITIONAL(_name)

/**
 * KPKEYS_GUARD_NOOP() - Define the guard of a feature that is not built.
 * @_name: as for KPKEYS_GUARD().
 */
#define KPKEYS_GUARD_NOOP(_name)					\
	DEFINE_CLASS(_name, int, (void)_T, 0, void)			\
	DEFINE_CLASS_IS_UNCONDITIONAL(_name)

/* === Tagged memory ====================================================== */

#ifdef CONFIG_ARCH_HAS_KPKEYS
int set_memory_pkey(unsigned long addr, int numpages, int pkey);
#else
static inline int set_memory_pkey(unsigned long addr, int numpages, int pkey)
{
	return pkey == KPKEYS_PKEY_DEFAULT ? 0 : -EOPNOTSUPP;
}
#endif

/**
 * struct kpkeys_violation - a write that the pkey register refused.
 * @addr: the address written to.
 * @ip: the instruction that wrote.
 * @pkey: the key of the page at @addr.
 * @pkey_reg: the pkey register at the time of the write.
 */
struct kpkeys_violation {
	unsigned long addr;
	unsigned long ip;
	int pkey;
	u64 pkey_reg;
};

/**
 * struct kpkeys_range - a piece of the linear map that is tagged.
 * @start: first address.
 * @end: first address behind.
 */
struct kpkeys_range {
	unsigned long start;
	unsigned long end;
};

void kpkeys_report_violation(const struct kpkeys_violation *violation);
void __noreturn kpkeys_violation_die(void);

/* === Hardened page tables =============================================== */

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES

DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_pgtables_key);

/**
 * kpkeys_hardened_pgtables_enabled() - Are page tables read-only by default?
 *
 * Context: any.
 * Return: true from the moment when page tables start to be tagged.
 */
static __always_inline bool kpkeys_hardened_pgtables_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_pgtables_key);
}

KPKEYS_GUARD(kpkeys_hardened_pgtables, KPKEYS_LVL_PGTABLES,
	     kpkeys_hardened_pgtables_enabled())

void kpkeys_hardened_pgtables_init(void);
struct page *__kpkeys_pgtable_alloc(struct page *page, unsigned int order);
bool __kpkeys_pgtable_free(struct page *page);

/**
 * kpkeys_pgtable_alloc() - Make fresh memory a protected page table.
 * @page: what the page allocator returned, already cleared; may be NULL.
 * @order: order of @page.
 *
 * Context: any in which pages may be allocated; does not sleep.
 * Return: @page, or NULL if there was none or it could not be protected, in
 * which case it was given back.
 */
static inline struct page *kpkeys_pgtable_alloc(struct page *page,
						unsigned int order)
{
	if (page && kpkeys_hardened_pgtables_enabled())
		return __kpkeys_pgtable_alloc(page, order);
	return page;
}

/**
 * kpkeys_pgtable_free() - Turn a page table back into ordinary memory.
 * @page: the page table; its destructor has run.
 *
 * Context: any in which pages may be freed, softirqs included.
 * Return: true if the caller shall free @page; false if the protection could
 * not be removed and the page has been kept back, to be freed later.
 */
static inline bool kpkeys_pgtable_free(struct page *page)
{
	if (kpkeys_hardened_pgtables_enabled())
		return __kpkeys_pgtable_free(page);
	return true;
}

/* A page table in the kernel image: must not share its page with data. */
#define __kpkeys_static_pgtable		__aligned(PAGE_SIZE)

#else /* !CONFIG_KPKEYS_HARDENED_PGTABLES */

static inline bool kpkeys_hardened_pgtables_enabled(void) { return false; }

KPKEYS_GUARD_NOOP(kpkeys_hardened_pgtables)

static inline void kpkeys_hardened_pgtables_init(void) { }

static inline struct page *kpkeys_pgtable_alloc(struct page *page,
						unsigned int order)
{
	return page;
}

static inline bool kpkeys_pgtable_free(struct page *page)
{
	return true;
}

#define __kpkeys_static_pgtable

#endif /* CONFIG_KPKEYS_HARDENED_PGTABLES */

#endif /* _LINUX_KPKEYS_H */
