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
 * struct kbench_counters - what is counted; absolute, or summed differences.
 * @ns: time.
 * @host_ns: time spent in calls that change the host's memory map (UML).
 * @host_calls: number of those calls.
 * @stats: statistics of kpkeys.
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
 * @name: what to write into the file to get it.
 * @run: do it kbench_run.ops times, in a kernel thread without mm. Times only
 *	the operation itself, calls kbench_pause() before each. Leaves nothing
 *	behind. Returns 0 or a negative errno.
 */
struct kbench_workload {
	const char *name;
	int (*run)(struct kbench_run *run);
};

/**
 * struct kbench_run - one sample.
 * @workload: what is done.
 * @size: how large each operation is, in the unit of the workload.
 * @ops: how many operations.
 * @tables: page table pages the operations made, visited or freed.
 * @large: the mapping is of folios of 64 KB, each mapped by its 16 entries.
 * @free_ns: time that freeing page tables took after the timed regions.
 * @sum: what the timed regions added up to.
 * @start: the counters when the current timed region began.
 * @done: completed when the thread has nothing left to do.
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

#endif /* __MM_KPKEYS_BENCH_BENCH_H */
