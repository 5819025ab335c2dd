/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Private to mm/kpkeys.
 */
#ifndef __MM_KPKEYS_KPKEYS_H
#define __MM_KPKEYS_KPKEYS_H

#include <linux/align.h>
#include <linux/compiler.h>
#include <linux/init.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_task.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/printk.h>

struct dentry;
struct kpkeys_pool;
struct seq_file;

struct dentry *kpkeys_debugfs_dir(void);
bool kpkeys_violation_panics(void);
__printf(1, 2) void kpkeys_violation_refused(const char *fmt, ...);
void kpkeys_violation_kill(void);

/* A word at once, as others may read it meanwhile; bytes of anything else. */
static __always_inline void kpkeys_store(void *dst, const void *src, size_t size)
{
	bool aligned = IS_ALIGNED((unsigned long)dst | (unsigned long)src, size);
	size_t i;

	switch (aligned ? size : 1) {
	case 2:
		WRITE_ONCE(*(u16 *)dst, *(const u16 *)src);
		return;
	case 4:
		WRITE_ONCE(*(u32 *)dst, *(const u32 *)src);
		return;
	case 8:
		WRITE_ONCE(*(u64 *)dst, *(const u64 *)src);
		return;
	}
	for (i = 0; i < size; i++)
		WRITE_ONCE(((u8 *)dst)[i], ((const u8 *)src)[i]);
}

/* A variable that the kernel command line clears with "name=off". */
#define kpkeys_boot_switch(_variable, _name)				\
static bool _variable __initdata = true;				\
									\
static int __init kpkeys_early_##_variable(char *arg)			\
{									\
	if (kstrtobool(arg, &_variable))				\
		pr_warn("%s=%s: expected on or off\n", _name, arg);	\
	return 0;							\
}									\
early_param(_name, kpkeys_early_##_variable)

/* === Statistics ========================================================= */

enum kpkeys_stat {
	KPKEYS_STAT_SWITCHES,		/* the level was raised and lowered */
	KPKEYS_STAT_NESTED,		/* a guard found the level raised */
	KPKEYS_STAT_TAG_CALLS,		/* changes of keys in the linear map */
	KPKEYS_STAT_PTPS_TAGGED,	/* pages that may be tagged */
	KPKEYS_STAT_PTPS_UNTAGGED,
	KPKEYS_STAT_TAG_FAILURES,
	KPKEYS_STAT_UNTAG_FAILURES,
	KPKEYS_STAT_VIOLATIONS,
	KPKEYS_NR_STATS
};

#ifdef CONFIG_KPKEYS_STATS
DECLARE_PER_CPU(unsigned long [KPKEYS_NR_STATS], kpkeys_stats);
extern const char * const kpkeys_stat_names[KPKEYS_NR_STATS];

static inline void kpkeys_stat_add(enum kpkeys_stat stat, unsigned long nr)
{
	this_cpu_add(kpkeys_stats[stat], nr);
}

unsigned long kpkeys_stat_read(enum kpkeys_stat stat);
#else
static inline void kpkeys_stat_add(enum kpkeys_stat stat, unsigned long nr) { }
#endif

/* === Page tables ======================================================== */

/* One page table page, as passed to the callback of a walk. */
struct kpkeys_table {
	void *addr;		/* in the linear map */
	const char *level;	/* "pgd", "p4d", ... */
	struct mm_struct *mm;
};

struct kpkeys_walk {
	/* Called for each page table page. */
	int (*table)(struct kpkeys_walk *walk, const struct kpkeys_table *tbl);
	/* Called for each writable entry that maps @nr pages, or NULL. */
	int (*writable)(struct kpkeys_walk *walk, unsigned long addr,
			pte_t *entry, unsigned long nr);
	void *private;
};

/* x86 has another name; elsewhere the kernel has its own top-level table. */
#ifndef USER_PTRS_PER_PGD
#ifdef KERNEL_PGD_BOUNDARY
#define USER_PTRS_PER_PGD	KERNEL_PGD_BOUNDARY
#else
#define USER_PTRS_PER_PGD	PTRS_PER_PGD
#endif
#endif

int kpkeys_walk_tables(struct kpkeys_walk *walk, struct mm_struct *mm);
bool kpkeys_topmost_is_next(struct mm_struct *mm);
bool kpkeys_page_is_ours(struct page *page);
bool kpkeys_is_linked(struct page *page);

extern struct kpkeys_pool kpkeys_pgtables_pool;

int kpkeys_tag_early(unsigned long addr, int nr, int pkey);
int kpkeys_tag_percpu(void __percpu *pages, int pkey);

/* === Tasks ============================================================== */

struct kpkeys_task *kpkeys_task_current(void);

#ifdef CONFIG_KPKEYS_HARDENED_CRED
/* The current task, whose stack is compared, or another. Not in NMIs. */
static __always_inline struct kpkeys_task *
kpkeys_task_find(const struct task_struct *task)
{
	return task == current ? kpkeys_task_current() :
	       (struct kpkeys_task *)kpkeys_task_of(task);
}
#endif

#if IS_ENABLED(CONFIG_KUNIT)
int kpkeys_tag_page(struct page *page, unsigned int order);
int kpkeys_untag_page(struct page *page, unsigned int order);
#endif

#ifdef CONFIG_KPKEYS_CHECK
/**
 * struct kpkeys_check_result - what the checker found.
 * @tables: page table pages visited.
 * @untagged: page table pages, ledgers, and pages of __kpkeys_state, of objects
 *	and of secrets that lack their key.
 * @aliases: entries that map a page of the pool, or a table that is older than
 *	the pool, writable and outside of the linear map.
 * @unlinked: page tables of processes that could be freed or used twice.
 * @foreign: tagged pages that should not be.
 */
struct kpkeys_check_result {
	unsigned long tables;
	unsigned long untagged;
	unsigned long aliases;
	unsigned long unlinked;
	unsigned long foreign;
};

int kpkeys_check(struct kpkeys_check_result *res, struct seq_file *m);
#endif

#endif /* __MM_KPKEYS_KPKEYS_H */
