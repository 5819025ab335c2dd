/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Private to mm/kpkeys_bench.
 */
#ifndef __MM_KPKEYS_BENCH_BENCH_H
#define __MM_KPKEYS_BENCH_BENCH_H

#include <linux/completion.h>
#include <linux/types.h>

#ifdef CONFIG_KPKEYS_STATS
#include "../kpkeys/kpkeys.h"
#define KBENCH_NR_STATS	KPKEYS_NR_STATS
#else
#define KBENCH_NR_STATS	0
#endif

struct mm_struct;
struct seq_file;
struct kbench_run;

/* === Measuring ========================================================== */

/**
 * struct kbench_counters - clock and counters, absolute or as sums of
 * differences.
 * @ns: time.
 * @host_ns: time in calls that change the host's memory map (UML).
 * @host_calls: number of those calls.
 * @stats: kpkeys statistics.
 */
struct kbench_counters {
	u64 ns;
	u64 host_ns;
	u64 host_calls;
	u64 stats[KBENCH_NR_STATS];
};

void kbench_begin(struct kbench_run *run);
void kbench_end(struct kbench_run *run);
void kbench_end_freeing(struct kbench_run *run);
void kbench_add_tables(struct kbench_run *run, struct mm_struct *mm);
void kbench_show(struct seq_file *m, const struct kbench_run *run);

/* === Workloads ========================================================== */

/**
 * struct kbench_workload - one kind of operation.
 * @name: name in the debugfs file.
 * @run: runs kbench_run.ops operations in a kernel thread without mm. Times
 *	only the operation itself, calls kbench_pause() before each, and cleans
 *	up. Returns 0 or a negative errno.
 */
struct kbench_workload {
	const char *name;
	int (*run)(struct kbench_run *run);
};

/**
 * struct kbench_run - one sample.
 * @workload: the workload.
 * @size: size of each operation, in the unit of the workload.
 * @ops: number of operations.
 * @tables: page table pages that the operations created, visited or freed.
 * @large: the mapping consists of 64 KB folios, each mapped by 16 entries.
 * @free_ns: time to free page tables after the timed regions.
 * @sum: sum over the timed regions.
 * @start: counters at the start of the current timed region.
 * @done: completed when the thread has finished.
 */
struct kbench_run {
	const struct kbench_workload *workload;
	unsigned long size;
	unsigned int ops;
	unsigned long tables;
	bool large;
	u64 free_ns;
	struct kbench_counters sum;
	struct kbench_counters start;
	struct completion done;
};

int kbench_pause(void);
struct mm_struct *kbench_mm_create(void);
void kbench_mm_exit_timed(struct kbench_run *run, struct mm_struct *mm);
int kbench_fault(unsigned long start, unsigned long end, unsigned long step,
		 unsigned int flags);

int kbench_nothing(struct kbench_run *run);
int kbench_switch(struct kbench_run *run);
int kbench_interrupt(struct kbench_run *run);
int kbench_fork(struct kbench_run *run);
int kbench_exit(struct kbench_run *run);
int kbench_munmap(struct kbench_run *run);
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
int kbench_fork_large(struct kbench_run *run);
int kbench_munmap_large(struct kbench_run *run);
#endif
int kbench_faults(struct kbench_run *run);
int kbench_mprotect(struct kbench_run *run);
int kbench_exec_exit(struct kbench_run *run);
int kbench_vmalloc(struct kbench_run *run);
int kbench_vmalloc_random(struct kbench_run *run);
int kbench_vm_map_ram(struct kbench_run *run);
int kbench_flush_page(struct kbench_run *run);
int kbench_keep_root(struct kbench_run *run);
int kbench_load_root(struct kbench_run *run);
int kbench_ibpb(struct kbench_run *run);

#endif /* __MM_KPKEYS_BENCH_BENCH_H */
