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
#include <linux/compiler.h>
#include <linux/jump_label.h>
#include <linux/types.h>

struct mm_struct;
struct page;
struct pt_regs;

/*
 * A level names what kernel code may write; the architecture translates it
 * into a value of its pkey register. Every level can write untagged memory, and
 * read all memory but secrets.
 */
#define KPKEYS_LVL_DEFAULT	0	/* every tagged page is read-only */
#define KPKEYS_LVL_PGTABLES	1	/* page tables are writable as well */
#define KPKEYS_LVL_STATE	2	/* variables with __kpkeys_state are */
#define KPKEYS_LVL_CRED		3	/* who each task is */
#define KPKEYS_LVL_SECRET	4	/* secrets, which no other level may read */

/* Marks a register that was not written; never a register value. */
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
 * kpkeys_level_of() - Get the level that a value of the pkey register stands for.
 * @pkey_reg: the value.
 *
 * Return: one of KPKEYS_LVL_*; the default for any value of no level.
 */
static __always_inline unsigned long kpkeys_level_of(u64 pkey_reg)
{
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_PGTABLES))
		return KPKEYS_LVL_PGTABLES;
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_STATE))
		return KPKEYS_LVL_STATE;
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_CRED))
		return KPKEYS_LVL_CRED;
	if (pkey_reg == arch_kpkeys_level_reg(KPKEYS_LVL_SECRET))
		return KPKEYS_LVL_SECRET;
	return KPKEYS_LVL_DEFAULT;
}

/**
 * kpkeys_raise() - Raise the current CPU from the default to a kpkeys level.
 * @level: one of KPKEYS_LVL_*, a compile-time constant.
 *
 * Until the matching kpkeys_lower(), the caller must not allocate memory or
 * sleep. Interrupts do not preempt it. A context switch ends the level early,
 * as does an interrupt that the architecture runs within a task.
 *
 * Always inlined with an immediate operand, so that no function exists that
 * sets the register to a value from memory.
 *
 * Context: any, IRQs and NMIs included. The caller has checked
 * arch_kpkeys_enabled().
 */
static __always_inline void kpkeys_raise(const int level)
{
	BUILD_BUG_ON(!__builtin_constant_p(level));

	kpkeys_assert_current_default();
	kpkeys_count_switch(false);
	arch_kpkeys_write_level(level);
}

/**
 * kpkeys_lower() - Return the current CPU to the default level.
 *
 * Context: as kpkeys_raise().
 */
static __always_inline void kpkeys_lower(void)
{
	arch_kpkeys_write_level(KPKEYS_LVL_DEFAULT);
}

/**
 * kpkeys_set_level() - Raise to a kpkeys level unless already there.
 * @level: one of KPKEYS_LVL_*, a compile-time constant.
 *
 * Levels do not stack: the level may be raised from the default only.
 *
 * Context: as kpkeys_raise().
 * Return: the previous value of the pkey register, or KPKEYS_PKEY_REG_INVAL if
 * the CPU was already at @level.
 */
static __always_inline u64 kpkeys_set_level(const int level)
{
	if (likely(arch_kpkeys_level_in_force(level))) {
		kpkeys_count_switch(true);
		/*
		 * Counting may enable interrupts, which end the level on UML.
		 */
		if (!IS_ENABLED(CONFIG_KPKEYS_STATS) ||
		    arch_kpkeys_level_in_force(level))
			return KPKEYS_PKEY_REG_INVAL;
	}

	kpkeys_raise(level);
	return arch_kpkeys_level_reg(KPKEYS_LVL_DEFAULT);
}

/**
 * kpkeys_restore_pkey_reg() - Undo kpkeys_set_level().
 * @pkey_reg: the return value of kpkeys_set_level().
 *
 * @pkey_reg may have been spilled to the stack, where an arbitrary write
 *	reaches it. It only tells whether to undo; the value written is the
 *	constant of the default level, because kpkeys_set_level() raises from no
 *	other.
 *
 * Context: as kpkeys_raise().
 */
static __always_inline void kpkeys_restore_pkey_reg(u64 pkey_reg)
{
	if (pkey_reg != KPKEYS_PKEY_REG_INVAL)
		kpkeys_lower();
}
#endif /* CONFIG_ARCH_HAS_KPKEYS */

/* An architecture may have a cheaper test than a static key. */
#ifndef arch_kpkeys_guard_enabled
#define arch_kpkeys_guard_enabled(enabled)	(enabled)
#endif

/**
 * KPKEYS_GUARD() - Define a guard that raises the level for a scope.
 * @_name: name of the guard, for guard() and scoped_guard().
 * @_level: the level to raise to, a compile-time constant.
 * @_enabled: expression that is true if the feature that owns the level is on;
 *	otherwise the guard does nothing.
 *
 * Define the guard of a feature in the header of its subsystem. Return and
 * break statements leave the scope at the level it was entered with.
 */
#define KPKEYS_GUARD(_name, _level, _enabled)				\
	DEFINE_CLASS(_name, u64, kpkeys_restore_pkey_reg(_T),		\
		     arch_kpkeys_guard_enabled(_enabled) ?		\
				kpkeys_set_level(_level) :		\
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
 * struct kpkeys_violation - an access that the pkey register refused.
 * @addr: the address written to, or read.
 * @ip: the instruction that did.
 * @pkey: the key of the page at @addr.
 * @is_read: it was a read.
 * @pkey_reg: the pkey register at that time.
 */
struct kpkeys_violation {
	unsigned long addr;
	unsigned long ip;
	int pkey;
	bool is_read;
	u64 pkey_reg;
};

/**
 * struct kpkeys_range - a tagged range of the linear map.
 * @start: first address.
 * @end: end address, exclusive.
 * @pkey: its key.
 */
struct kpkeys_range {
	unsigned long start;
	unsigned long end;
	int pkey;
};

void kpkeys_report_violation(const struct kpkeys_violation *violation);
void __noreturn kpkeys_violation_die(struct pt_regs *regs, unsigned long code);
void kpkeys_level_leaked(void);

#if IS_ENABLED(CONFIG_KPKEYS_KUNIT_TEST)
void kpkeys_expect_violation(bool expected);
int kpkeys_test_write(void *dst, const void *src, size_t size);
int kpkeys_test_read(unsigned long *dst, const void *src);
bool kpkeys_violation_is_expected(void);
#else
static inline bool kpkeys_violation_is_expected(void) { return false; }
#endif

/* === Hardened page tables =============================================== */

/* In place of an enum pgtable_level, for tables of the kernel, and of guests. */
#define KPKEYS_ANY_LEVEL	(-1)
#define KPKEYS_GUEST_TABLE	(-2)

#ifdef CONFIG_KPKEYS_HARDENED_PGTABLES

DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_pgtables_key);

/**
 * kpkeys_hardened_pgtables_enabled() - Are page tables read-only by default?
 *
 * Return: true as soon as page tables start to be tagged.
 */
static __always_inline bool kpkeys_hardened_pgtables_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_pgtables_key);
}

KPKEYS_GUARD(kpkeys_hardened_pgtables, KPKEYS_LVL_PGTABLES,
	     kpkeys_hardened_pgtables_enabled())

DECLARE_STATIC_KEY_FALSE(kpkeys_unbatched_key);

/**
 * kpkeys_batch_enabled() - Does a batch of <linux/kpkeys_batch.h> raise?
 *
 * Never with PREEMPT_RT, where spinlocks taken in batches may sleep.
 *
 * Return: false if each write raises by itself (kpkeys.batch=off).
 */
static __always_inline bool kpkeys_batch_enabled(void)
{
	return !IS_ENABLED(CONFIG_PREEMPT_RT) &&
	       !static_branch_unlikely(&kpkeys_unbatched_key);
}

/* The order of the top-level table of an mm. */
#ifndef arch_kpkeys_pgd_order
#define arch_kpkeys_pgd_order(mm)	((void)(mm), 0)
#endif

/* Does an entry map a page with the key of page tables? False if unknown. */
#ifndef arch_kpkeys_pte_tagged
#define arch_kpkeys_pte_tagged(pte)	((void)(pte), false)
#endif

/* Does the architecture make this table read-only in another way? */
#ifndef arch_kpkeys_read_only
#define arch_kpkeys_read_only(table)	((void)(table), false)
#endif

/* Flush all TLBs of all CPUs, with what they know of upper-level entries. */
#ifndef arch_kpkeys_flush_tlbs
#define arch_kpkeys_flush_tlbs()	flush_tlb_all()
#endif

/* Convert an address that a table walk computed to a virtual address. */
#ifndef arch_kpkeys_walk_addr
#define arch_kpkeys_walk_addr(addr)	(addr)
#endif

void kpkeys_hardened_pgtables_init(void);
void kpkeys_hardened_pgtables_add(void *table);
void kpkeys_hardened_pgtables_suspend(void);
void kpkeys_hardened_pgtables_resume(void);
struct page *kpkeys_pgtable_alloc(gfp_t gfp, unsigned int order, int level);
void kpkeys_pgtable_free(struct page *page);
bool kpkeys_pgtable_is_early(struct page *page);

/* A page table in the kernel image must not share its page with data. */
#define __kpkeys_static_pgtable		__aligned(PAGE_SIZE)

#else /* !CONFIG_KPKEYS_HARDENED_PGTABLES */

static inline bool kpkeys_hardened_pgtables_enabled(void) { return false; }
static inline bool kpkeys_batch_enabled(void) { return false; }

KPKEYS_GUARD_NOOP(kpkeys_hardened_pgtables)

static inline void kpkeys_hardened_pgtables_init(void) { }
static inline void kpkeys_hardened_pgtables_add(void *table) { }
static inline void kpkeys_hardened_pgtables_suspend(void) { }
static inline void kpkeys_hardened_pgtables_resume(void) { }

static inline struct page *kpkeys_pgtable_alloc(gfp_t gfp, unsigned int order,
						int level)
{
	return NULL;
}

static inline void kpkeys_pgtable_free(struct page *page) { }
static inline bool kpkeys_pgtable_is_early(struct page *page) { return false; }

#define __kpkeys_static_pgtable

#endif /* CONFIG_KPKEYS_HARDENED_PGTABLES */

/* === Hardened state ===================================================== */

#ifdef CONFIG_KPKEYS_HARDENED_STATE
DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_state_key);

/**
 * kpkeys_hardened_state_enabled() - Is __kpkeys_state read-only by default?
 *
 * Return: true as soon as it starts to be tagged.
 */
static __always_inline bool kpkeys_hardened_state_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_state_key);
}

void kpkeys_hardened_state_init(void);
#else
static inline bool kpkeys_hardened_state_enabled(void) { return false; }
static inline void kpkeys_hardened_state_init(void) { }
#endif

/* === Hardened credentials =============================================== */

#ifdef CONFIG_KPKEYS_HARDENED_CRED
DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_cred_key);

/**
 * kpkeys_hardened_cred_enabled() - Are credentials read-only by default?
 *
 * Return: true from before the first of them is allocated, or never.
 */
static __always_inline bool kpkeys_hardened_cred_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_cred_key);
}

void kpkeys_hardened_cred_init(void);
void __kpkeys_verify_mm(const struct mm_struct *mm);

/**
 * kpkeys_verify_mm() - See that an address space is the one of the current task.
 * @mm: an address space. If the current task does not claim it for its own, it
 *	was found in another way.
 *
 * Does not return if the claim is forged.
 *
 * Context: process context, before the lock of @mm is taken.
 */
static __always_inline void kpkeys_verify_mm(const struct mm_struct *mm)
{
	if (kpkeys_hardened_cred_enabled())
		__kpkeys_verify_mm(mm);
}
#else
/* A macro: GCC chooses other registers where a call was inlined, even of nothing. */
#define kpkeys_hardened_cred_enabled()	false
static inline void kpkeys_hardened_cred_init(void) { }
#define kpkeys_verify_mm(_mm)		do { } while (0)
#endif

/* === Hardened registers ================================================= */

#ifdef CONFIG_KPKEYS_HARDENED_REGS
DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_regs_key);

/**
 * kpkeys_hardened_regs_enabled() - Are saved user registers compared?
 *
 * Return: true from before there is a second task, or never.
 */
static __always_inline bool kpkeys_hardened_regs_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_regs_key);
}

void kpkeys_hardened_regs_init(void);
#else
static inline bool kpkeys_hardened_regs_enabled(void) { return false; }
static inline void kpkeys_hardened_regs_init(void) { }
#endif

/* === Hardened secrets =================================================== */

#ifdef CONFIG_KPKEYS_HARDENED_SECRET
void kpkeys_hardened_secret_init(void);
#else
static inline void kpkeys_hardened_secret_init(void) { }
#endif

/* === Hardened keys of pointer authentication ============================ */

#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
DECLARE_STATIC_KEY_FALSE(kpkeys_hardened_ptrauth_key);

/**
 * kpkeys_hardened_ptrauth_enabled() - Are pointer authentication keys secret?
 *
 * Return: true from before there is a second task, or never.
 */
static __always_inline bool kpkeys_hardened_ptrauth_enabled(void)
{
	return static_branch_unlikely(&kpkeys_hardened_ptrauth_key);
}

void kpkeys_hardened_ptrauth_init(void);
#else
#define kpkeys_hardened_ptrauth_enabled()	false
static inline void kpkeys_hardened_ptrauth_init(void) { }
#endif

#endif /* _LINUX_KPKEYS_H */
