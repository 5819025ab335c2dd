// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checker: every page table page must be tagged, and no other page.
 *
 * The system keeps running. The ranges that the architecture reports as tagged
 * are a snapshot, and a page may change its role afterwards. Each apparent
 * violation is therefore checked against a newer snapshot, and reported only if
 * it persists.
 */
#include <linux/bitops.h>
#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_state.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mutex.h>
#include <linux/oom.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
#include <asm/kpkeys_ptrauth.h>
#endif

#include "kpkeys.h"
#include "pool.h"
#include "secret.h"

/* A page that is freed and reused between each of so many looks is unlikely. */
#define FOREIGN_LOOKS	5

struct snapshot {
	struct kpkeys_range *ranges;
	int nr, max;
};

struct check {
	struct kpkeys_check_result *res;
	struct snapshot snap;
	struct seq_file *m;
	const char *owner;	/* of the page tables being walked */
};

/* === Snapshots ========================================================== */

/* Returns -ENOSPC, with the number in snap->nr, if there is no room. */
static int kpkeys_snapshot_try(struct snapshot *snap)
{
	int nr = arch_kpkeys_tagged_ranges(snap->ranges, snap->max);

	if (nr < 0)
		return nr;
	snap->nr = nr;
	return nr <= snap->max ? 0 : -ENOSPC;
}

static int kpkeys_snapshot_take(struct snapshot *snap)
{
	int err;

	while ((err = kpkeys_snapshot_try(snap)) == -ENOSPC) {
		kvfree(snap->ranges);
		snap->max = snap->nr + snap->nr / 2;
		snap->ranges = kvmalloc_objs(*snap->ranges, snap->max);
		if (!snap->ranges) {
			snap->max = 0;
			return -ENOMEM;
		}
	}
	return err;
}

/* Returns the key of a page. */
static int kpkeys_snapshot_pkey(const struct snapshot *snap, unsigned long addr)
{
	int low = 0, high = snap->nr;

	while (low < high) {
		int mid = low + (high - low) / 2;

		if (addr >= snap->ranges[mid].end)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == snap->nr || addr < snap->ranges[low].start)
		return KPKEYS_PKEY_DEFAULT;
	return snap->ranges[low].pkey;
}

/* === Page tables ======================================================== */

static void kpkeys_check_report(struct check *check, const char *what,
				const char *level, unsigned long addr)
{
	if (check->m)
		seq_printf(check->m, "%s %s 0x%lx of %s\n", what, level, addr,
			   check->owner);
}

static int kpkeys_check_table(struct kpkeys_walk *walk,
			      const struct kpkeys_table *tbl)
{
	struct check *check = walk->private;
	unsigned long addr = (unsigned long)tbl->addr;
	int err;

	check->res->tables++;
	if (tbl->mm != &init_mm && strcmp(tbl->level, "pgd") &&
	    !kpkeys_is_linked(virt_to_page(tbl->addr))) {
		check->res->unlinked++;
		kpkeys_check_report(check, "unlinked", tbl->level, addr);
	}
	if (kpkeys_snapshot_pkey(&check->snap, addr) == KPKEYS_PKEY_PGTABLES ||
	    arch_kpkeys_read_only(tbl->addr))
		return 0;

	/*
	 * The table may be younger than the snapshot, but it cannot go away. Do
	 * not allocate under the mmap lock of init_mm: the allocation may need
	 * kernel page tables, or make the pool give back pages, which takes the
	 * lock.
	 */
	err = kpkeys_snapshot_try(&check->snap);
	if (err)
		return err;
	if (kpkeys_snapshot_pkey(&check->snap, addr) == KPKEYS_PKEY_PGTABLES)
		return 0;

	check->res->untagged++;
	kpkeys_check_report(check, "untagged", tbl->level, addr);
	return 0;
}

static int kpkeys_check_writable(struct kpkeys_walk *walk, unsigned long addr,
				 pte_t *entry, unsigned long nr)
{
	struct check *check = walk->private;
	pte_t pte = ptep_get(entry);
	/* In a large entry, x86 has one more bit of attributes there. */
	unsigned long pfn = ALIGN_DOWN(pte_pfn(pte), nr);

	/* In the linear map itself, the key of the entry protects the page. */
	if (!pfn_valid(pfn) || (unsigned long)page_address(pfn_to_page(pfn)) == addr ||
	    arch_kpkeys_pte_tagged(pte) ||
	    !kpkeys_pool_protects(&kpkeys_pgtables_pool, pfn, nr))
		return 0;

	/*
	 * Recheck the entry: the page may have been unmapped, freed and reused.
	 */
	smp_rmb();
	pte = ptep_get(entry);
	if (!pte_present(pte) || ALIGN_DOWN(pte_pfn(pte), nr) != pfn)
		return 0;

	check->res->aliases++;
	kpkeys_check_report(check, "alias of a table", "at", addr);
	return 0;
}

static int kpkeys_check_mm(struct check *check, struct mm_struct *mm,
			   const char *owner)
{
	struct kpkeys_walk walk = {
		.table = kpkeys_check_table,
		.writable = kpkeys_check_writable,
		.private = check,
	};
	struct kpkeys_check_result before = *check->res;
	int err;

	check->owner = owner;
	for (;;) {
		err = mmap_write_lock_killable(mm);
		if (err)
			return err;
		err = kpkeys_walk_tables(&walk, mm);
		mmap_write_unlock(mm);
		if (err != -ENOSPC)
			return err;

		/* Retry with a larger snapshot. Exceptions are listed again. */
		err = kpkeys_snapshot_take(&check->snap);
		if (err)
			return err;
		*check->res = before;
	}
}

/* === Processes ========================================================== */

struct process {
	struct mm_struct *mm;
	char name[TASK_COMM_LEN + 16];
};

/* Processes that start meanwhile are missed. */
static int kpkeys_check_collect(struct process *procs, int max)
{
	struct task_struct *leader, *task;
	int nr = 0;

	guard(rcu)();
	for_each_process(leader) {
		if (nr == max)
			break;
		task = find_lock_task_mm(leader);
		if (!task)
			continue;
		if (!(task->flags & PF_KTHREAD) &&
		    mmget_not_zero(task->mm)) {
			procs[nr].mm = task->mm;
			snprintf(procs[nr].name, sizeof(procs[nr].name),
				 "%s[%d]", task->comm, task_pid_nr(task));
			nr++;
		}
		task_unlock(task);
	}
	return nr;
}

static int kpkeys_check_processes(struct check *check)
{
	int max = READ_ONCE(nr_threads) + 64;
	struct process *procs = kvmalloc_objs(*procs, max);
	int nr, i, err = 0;

	if (!procs)
		return -ENOMEM;

	nr = kpkeys_check_collect(procs, max);
	for (i = 0; i < nr; i++) {
		if (!err)
			err = kpkeys_check_mm(check, procs[i].mm, procs[i].name);
		mmput(procs[i].mm);
		cond_resched();
	}
	kvfree(procs);
	return err;
}

/* === Foreign pages ====================================================== */

static bool kpkeys_page_is_foreign(unsigned long addr)
{
	return !kpkeys_page_is_ours(virt_to_page((void *)addr));
}

/* Recheck: the page may have been given back since the snapshot. */
static int kpkeys_page_stays_foreign(struct check *check, unsigned long addr)
{
	struct snapshot *now __free(kfree) = kzalloc_obj(*now);
	int looks, err = 0;
	bool foreign = true;

	if (!now)
		return -ENOMEM;

	for (looks = 0; !err && foreign && looks < FOREIGN_LOOKS; looks++) {
		msleep(20);
		err = kpkeys_snapshot_take(now);
		foreign = !err &&
			  kpkeys_snapshot_pkey(now, addr) != KPKEYS_PKEY_DEFAULT &&
			  kpkeys_page_is_foreign(addr);
	}
	kvfree(now->ranges);
	return err ? : foreign;
}

static int kpkeys_check_foreign(struct check *check)
{
	const struct snapshot *snap = &check->snap;
	unsigned long addr;
	int i, ret;

	for (i = 0; i < snap->nr; i++) {
		for (addr = snap->ranges[i].start; addr < snap->ranges[i].end;
		     addr += PAGE_SIZE) {
			if (!kpkeys_page_is_foreign(addr))
				continue;
			ret = kpkeys_page_stays_foreign(check, addr);
			if (ret < 0)
				return ret;
			if (!ret)
				continue;
			check->res->foreign++;
			kpkeys_check_report(check, "foreign", "page", addr);
		}
	}
	return 0;
}

/* === Other keys ========================================================= */

static int kpkeys_check_pkey(struct check *check, const void *addr, int pkey,
			     const char *what)
{
	int err;

	if (kpkeys_snapshot_pkey(&check->snap, (unsigned long)addr) == pkey)
		return 0;

	/* The page may be younger than the snapshot, but does not go away. */
	err = kpkeys_snapshot_take(&check->snap);
	if (err || kpkeys_snapshot_pkey(&check->snap, (unsigned long)addr) == pkey)
		return err;
	check->res->untagged++;
	kpkeys_check_report(check, "untagged", what, (unsigned long)addr);
	return 0;
}

static int kpkeys_check_objects(struct check *check)
{
	const struct kpkeys_pool *pool = &kpkeys_pgtables_pool;
	unsigned long pfn, end = kpkeys_directory_end(pool);
	unsigned int i;
	int err = 0;

	for (pfn = 0; !err && pfn < end; pfn += KPKEYS_BLOCK_PAGES) {
		struct kpkeys_region *region = kpkeys_region_around(pool, pfn);

		if (!region)
			continue;
		for_each_set_bit(i, region->objects, KPKEYS_BLOCK_PAGES) {
			err = kpkeys_check_pkey(check,
						page_address(pfn_to_page(region->base + i)),
						KPKEYS_PKEY_CRED, "objects");
			if (err)
				break;
		}
	}
	return err;
}

static int kpkeys_check_percpu(struct check *check, void __percpu *pages, int pkey,
			       const char *what)
{
	int cpu, err = 0;

	for_each_possible_cpu(cpu) {
		err = kpkeys_check_pkey(check, per_cpu_ptr(pages, cpu), pkey, what);
		if (err)
			break;
	}
	return err;
}

static int kpkeys_check_ptrauth(struct check *check)
{
#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
	if (kpkeys_hardened_ptrauth_enabled())
		return kpkeys_check_percpu(check, &arm64_ptrauth_cpu, KPKEYS_PKEY_SECRET,
					   "keys of a CPU");
#endif
	return 0;
}

static int kpkeys_check_state(struct check *check)
{
	int err = 0;
#ifdef CONFIG_KPKEYS_HARDENED_STATE
	const char *page;
	char c;

	if (!kpkeys_hardened_state_enabled())
		return 0;
	for (page = __kpkeys_state_start; !err && page < __kpkeys_state_end;
	     page += PAGE_SIZE) {
		/*
		 * The linear map may not have the image, where a mapping
		 * without the key is an alias.
		 */
		if (!get_kernel_nofault(c, (char *)lm_alias(page)))
			err = kpkeys_check_pkey(check, lm_alias(page),
						KPKEYS_PKEY_STATE, "state");
	}
#endif
	return err;
}

static int kpkeys_check_secrets(struct check *check)
{
	const void *block = NULL;
	unsigned int i, nr;
	int err = 0;

	while (!err && (block = kpkeys_secrets_next(block, &nr))) {
		err = kpkeys_check_pkey(check, block, KPKEYS_PKEY_LEDGER, "list of secrets");
		for (i = 1; !err && i <= nr; i++)
			err = kpkeys_check_pkey(check, block + i * PAGE_SIZE,
						KPKEYS_PKEY_SECRET, "secrets");
	}
	return err;
}

static int kpkeys_check_other_keys(struct check *check)
{
	return kpkeys_check_objects(check) ? :
	       kpkeys_check_percpu(check, &kpkeys_ledger, KPKEYS_PKEY_LEDGER, "ledger") ? :
	       kpkeys_check_state(check) ? : kpkeys_check_secrets(check) ? :
	       kpkeys_check_ptrauth(check);
}

/* === The check ========================================================== */

/**
 * kpkeys_check() - Check the page tables of the kernel and of all processes.
 * @res: receives the result.
 * @m: where to list each exception, or NULL.
 *
 * Context: may sleep. Takes the mmap lock of each process for writing.
 * Return: 0 when the check was completed, whatever it found; -EOPNOTSUPP if
 * page tables are not hardened; or another error.
 */
int kpkeys_check(struct kpkeys_check_result *res, struct seq_file *m)
{
	struct check check = {
		.res = res,
		.m = m,
	};
	int err;

	*res = (struct kpkeys_check_result) {};
	if (!kpkeys_hardened_pgtables_enabled())
		return -EOPNOTSUPP;

	/* Memory hot-remove frees tables without the mmap lock. */
	get_online_mems();
	err = kpkeys_snapshot_take(&check.snap);
	if (!err)
		err = kpkeys_check_mm(&check, &init_mm, "the kernel");
	if (!err)
		err = kpkeys_check_processes(&check);
	if (!err)
		err = kpkeys_snapshot_take(&check.snap);
	if (!err) {
		check.owner = "the kernel";
		err = kpkeys_check_other_keys(&check);
	}
	if (!err) {
		check.owner = "nobody";
		err = kpkeys_check_foreign(&check);
	}
	put_online_mems();
	kvfree(check.snap.ranges);
	return err;
}

static int kpkeys_check_show(struct seq_file *m, void *unused)
{
	static DEFINE_MUTEX(lock);
	struct kpkeys_check_result res;
	int err;

	guard(mutex)(&lock);
	err = kpkeys_check(&res, m);
	if (err)
		return err;

	seq_printf(m, "tables %lu\n", res.tables);
	seq_printf(m, "untagged %lu\n", res.untagged);
	seq_printf(m, "aliases %lu\n", res.aliases);
	seq_printf(m, "unlinked %lu\n", res.unlinked);
	seq_printf(m, "foreign %lu\n", res.foreign);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(kpkeys_check);

static int __init kpkeys_check_init(void)
{
	debugfs_create_file("check", 0400, kpkeys_debugfs_dir(), NULL,
			    &kpkeys_check_fops);
	return 0;
}
late_initcall(kpkeys_check_init);
