// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of address space isolation: windows. They need asi=on. */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/asi.h>
#include <linux/asi_copy.h>
#include <linux/asi_exec.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/gfp.h>
#include <linux/interrupt.h>
#include <linux/iomap.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mmu_context.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include <asm/asi.h>
#include <asm/mmu_context.h>
#include <asm/tlbflush.h>

#include "../ephmap.h"

#define VALUE		0x5a
/* Retries, because an interrupt may leave the restricted address space. */
#define TRIES		100
#define ROUNDS		5

#define skip_unless_enabled(test)					\
	do {								\
		if (!asi_enabled())					\
			kunit_skip(test, "needs asi=on");		\
	} while (0)

/* === A process and its memory =========================================== */

static void put_memory(void *folio)
{
	folio_put(folio);
}

static struct folio *ephmap_test_folio(struct kunit *test, unsigned int order)
{
	struct folio *folio = folio_alloc(GFP_HIGHUSER_MOVABLE, order);

	KUNIT_ASSERT_NOT_NULL(test, folio);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_memory, folio),
			0);
	return folio;
}

/* A file of this user; the caller puts it. */
static struct file *ephmap_test_file(struct kunit *test)
{
	struct file *file = shmem_file_setup("asi_ephmap", PAGE_SIZE, EMPTY_VMA_FLAGS);

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	return file;
}

static void ephmap_test_attach(struct kunit *test)
{
	skip_unless_enabled(test);
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);
}

static void restrict_cpu(void)
{
	unsigned long flags;

	local_irq_save(flags);
	asi_enter();
	local_irq_restore(flags);
}

static void ephmap_test_leave(void)
{
	unsigned long flags;

	local_irq_save(flags);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	local_irq_restore(flags);
}

/* As at the beginning of a system call. */
static bool open_restricted(struct ephmap *map)
{
	int i;

	for (i = 0; i < TRIES; i++) {
		restrict_cpu();
		if (ephmap_open(map))
			return true;
	}
	ephmap_test_leave();
	return false;
}

static void close_and_leave(struct ephmap *map)
{
	ephmap_close(map);
	ephmap_test_leave();
}

/* === One window ========================================================== */

static void pages_are_mapped_until_it_is_closed(struct kunit *test)
{
	struct folio *folio;
	struct ephmap map;
	unsigned long exits;
	bool restricted;
	u8 value = 0;
	u8 *addr;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	memset(folio_address(folio), VALUE, PAGE_SIZE);

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	exits = raw_cpu_read(asi_switches[ASI_EXIT_FAULT]);
	addr = ephmap_add(&map, &folio->page, 1);
	value = addr[0];
	addr[PAGE_SIZE - 1] = VALUE + 1;
	restricted = asi_restricted();
	exits = raw_cpu_read(asi_switches[ASI_EXIT_FAULT]) - exits;
	close_and_leave(&map);

	KUNIT_EXPECT_TRUE(test, restricted);
	KUNIT_EXPECT_EQ(test, exits, 0);
	KUNIT_EXPECT_EQ(test, value, VALUE);
	KUNIT_EXPECT_EQ(test, ((u8 *)folio_address(folio))[PAGE_SIZE - 1],
			VALUE + 1);
	KUNIT_EXPECT_NE(test, copy_from_kernel_nofault(&value, addr, 1), 0);
}

static void it_holds_so_many_pages(struct kunit *test)
{
	unsigned int order = ilog2(EPHMAP_PAGES), i, wrong = 0;
	struct folio *folio;
	struct ephmap map;
	void *one_more;
	u8 *addr;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, order);
	for (i = 0; i < EPHMAP_PAGES; i++)
		*(u8 *)page_address(folio_page(folio, i)) = i;

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	addr = ephmap_add(&map, &folio->page, EPHMAP_PAGES);
	for (i = 0; i < EPHMAP_PAGES; i++)
		wrong += addr[i * PAGE_SIZE] != i;
	close_and_leave(&map);
	KUNIT_EXPECT_EQ(test, wrong, 0);

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	addr = ephmap_add(&map, &folio->page, EPHMAP_PAGES - 1);
	one_more = ephmap_add(&map, folio_page(folio, EPHMAP_PAGES - 1), 1);
	wrong = *(u8 *)one_more != EPHMAP_PAGES - 1;
	close_and_leave(&map);
	KUNIT_EXPECT_PTR_EQ(test, one_more,
			    (void *)addr + (EPHMAP_PAGES - 1) * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void too_many_pages_are_refused(struct kunit *test)
{
	struct folio *folio;
	struct ephmap map;
	void *addr;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, ilog2(EPHMAP_PAGES) + 1);
	kunit_warning_suppress(test) {
		KUNIT_ASSERT_TRUE(test, open_restricted(&map));
		addr = ephmap_add(&map, &folio->page, EPHMAP_PAGES + 1);
		close_and_leave(&map);
		KUNIT_EXPECT_SUPPRESSED_WARNING_COUNT(test, 1);
	}
	KUNIT_EXPECT_NULL(test, addr);
}

static void it_is_in_both_address_spaces(struct kunit *test)
{
	struct folio *folio;
	struct ephmap map;
	bool restricted;
	u8 value;
	u8 *addr;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	memset(folio_address(folio), VALUE, PAGE_SIZE);

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	addr = ephmap_add(&map, &folio->page, 1);
	ephmap_test_leave();
	restricted = asi_restricted();
	value = *addr;
	ephmap_close(&map);
	KUNIT_EXPECT_FALSE(test, restricted);
	KUNIT_EXPECT_EQ(test, value, VALUE);
	KUNIT_EXPECT_NE(test, copy_from_kernel_nofault(&value, addr, 1), 0);
}

/*
 * With PCID, the TLB keeps entries of the address space that is not loaded, and
 * closing flushes it before its next use. So the next two look there, with
 * preemption off: other tasks could have it flushed for their own reasons.
 */

/* As in an interrupt that leaves while the window is open, and an NMI. */
static void none_is_left_where_it_was_left(struct kunit *test)
{
	struct folio *folio;
	struct ephmap map;
	bool restricted;
	u8 value, left;
	int error;
	u8 *addr;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	memset(folio_address(folio), VALUE, PAGE_SIZE);

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	addr = ephmap_add(&map, &folio->page, 1);
	ephmap_test_leave();
	value = READ_ONCE(*addr);
	restrict_cpu();
	restricted = asi_restricted();
	preempt_disable();
	ephmap_close(&map);
	ephmap_test_leave();
	error = copy_from_kernel_nofault(&left, addr, 1);
	preempt_enable();
	KUNIT_EXPECT_TRUE(test, restricted);
	KUNIT_EXPECT_EQ(test, value, VALUE);
	KUNIT_EXPECT_NE(test, error, 0);
}

static void none_is_left_where_it_was_opened(struct kunit *test)
{
	struct folio *folio;
	struct ephmap map;
	unsigned long flags;
	u8 value, left;
	int error;
	u8 *addr;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	memset(folio_address(folio), VALUE, PAGE_SIZE);

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	addr = ephmap_add(&map, &folio->page, 1);
	value = READ_ONCE(*addr);
	ephmap_test_leave();
	preempt_disable();
	ephmap_close(&map);
	local_irq_save(flags);
	asi_enter();
	/* If it faults, it leaves, and faults again. */
	error = copy_from_kernel_nofault(&left, addr, 1);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	local_irq_restore(flags);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, value, VALUE);
	KUNIT_EXPECT_NE(test, error, 0);
}

static bool is_stale_in_full(void)
{
	return raw_cpu_read(asi_stale[false]) &
	       BIT(__native_read_cr3() & ASI_PCID_PROCESS);
}

/* Else the next exit would flush the TLB, for nothing. */
static void closing_spares_what_was_not_left(struct kunit *test)
{
	bool before = true, after = true;
	struct folio *folio;
	struct ephmap map;
	int i;

	if (!asi_has_pcid())
		kunit_skip(test, "needs PCID");
	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);

	/* Interrupts may leave, and others may flush. */
	for (i = 0; i < TRIES && (before || after); i++) {
		KUNIT_ASSERT_TRUE(test, open_restricted(&map));
		ephmap_add(&map, &folio->page, 1);
		before = is_stale_in_full();
		preempt_disable();
		ephmap_close(&map);
		after = is_stale_in_full();
		preempt_enable();
		ephmap_test_leave();
	}
	KUNIT_EXPECT_FALSE(test, before);
	KUNIT_EXPECT_FALSE(test, after);
}

static void put_other(void *mm)
{
	mmput(mm);
}

/* A window of one process must not be mapped in another. */
static void it_is_of_one_process(struct kunit *test)
{
	struct mm_struct *mm, *other;
	struct folio *folio;
	struct ephmap map;
	unsigned long flags;
	u8 value;
	int error;
	u8 *addr;

	ephmap_test_attach(test);
	other = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_other, other),
			0);
	folio = ephmap_test_folio(test, 0);
	mm = current->mm;

	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	addr = ephmap_add(&map, &folio->page, 1);
	local_irq_save(flags);
	switch_mm_irqs_off(mm, other, current);
	error = copy_from_kernel_nofault(&value, addr, 1);
	switch_mm_irqs_off(other, mm, current);
	local_irq_restore(flags);
	close_and_leave(&map);
	KUNIT_EXPECT_NE(test, error, 0);
}

/* === No window ============================================================ */

static void none_without_need(struct kunit *test)
{
	struct ephmap map;

	ephmap_test_attach(test);
	ephmap_test_leave();
	KUNIT_EXPECT_FALSE(test, ephmap_open(&map));
}

static void try_in_interrupt(void *opened)
{
	struct ephmap map;

	asi_enter();
	*(bool *)opened = ephmap_open(&map);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
}

static void none_in_interrupts(struct kunit *test)
{
	bool opened = true;

	ephmap_test_attach(test);
	KUNIT_ASSERT_EQ(test, smp_call_function_single(raw_smp_processor_id(),
						       try_in_interrupt,
						       &opened, 1), 0);
	KUNIT_EXPECT_FALSE(test, opened);
}

struct softirq {
	struct tasklet_struct tasklet;
	bool opened;
};

/* Interrupts are on, but it is no task that asks. */
static void try_in_softirq(struct tasklet_struct *tasklet)
{
	struct softirq *softirq = from_tasklet(softirq, tasklet, tasklet);
	struct ephmap map;

	restrict_cpu();
	softirq->opened = ephmap_open(&map);
	if (softirq->opened)
		ephmap_close(&map);
	ephmap_test_leave();
}

static void none_in_softirqs(struct kunit *test)
{
	struct softirq softirq = { .opened = true };

	ephmap_test_attach(test);
	tasklet_setup(&softirq.tasklet, try_in_softirq);
	/* It runs in this task, when that is allowed again. */
	local_bh_disable();
	tasklet_schedule(&softirq.tasklet);
	local_bh_enable();
	tasklet_kill(&softirq.tasklet);
	KUNIT_EXPECT_FALSE(test, softirq.opened);
}

static void *no_table(void)
{
	return NULL;
}

static void none_without_memory(struct kunit *test)
{
	struct ephmap map;

	ephmap_test_attach(test);
	kunit_activate_static_stub(test, ephmap_new_table, no_table);
	KUNIT_EXPECT_FALSE(test, open_restricted(&map));
	kunit_deactivate_static_stub(test, ephmap_new_table);
	KUNIT_ASSERT_TRUE(test, open_restricted(&map));
	close_and_leave(&map);
}

/* === Other CPUs ========================================================== */

/* A thread of the process on another CPU, which runs until it is stopped. */
struct thread {
	struct mm_struct *mm;
	struct completion runs, done;
	bool stop;
};

static int run_thread(void *data)
{
	struct thread *thread = data;

	kthread_use_mm(thread->mm);
	complete(&thread->runs);
	while (!READ_ONCE(thread->stop))
		cpu_relax();
	kthread_unuse_mm(thread->mm);
	complete(&thread->done);
	return 0;
}

/*
 * Starts a thread on another CPU, waits until it runs, and stays on this CPU,
 * until migrate_enable().
 */
static void run_elsewhere(struct kunit *test, int (*run)(void *data),
			  void *data, struct completion *runs)
{
	struct task_struct *task;

	migrate_disable();
	task = kthread_create(run, data, "asi_test");
	if (IS_ERR(task)) {
		migrate_enable();
		KUNIT_FAIL_AND_ABORT(test, "no thread");
	}
	kthread_bind(task, cpumask_any_but(cpu_online_mask, smp_processor_id()));
	wake_up_process(task);
	wait_for_completion(runs);
}

/* A window while another thread runs; the caller does not migrate. */
static bool open_and_close(void)
{
	struct ephmap map;

	if (!open_restricted(&map))
		return false;
	close_and_leave(&map);
	return true;
}

static void other_threads_have_none_of_it(struct kunit *test)
{
	struct thread thread = {};
	unsigned int here;
	bool shared, opened, alone = false;
	struct ephmap map;

	ephmap_test_attach(test);
	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");

	thread.mm = current->mm;
	init_completion(&thread.runs);
	init_completion(&thread.done);
	run_elsewhere(test, run_thread, &thread, &thread.runs);
	here = smp_processor_id();

	/* No window in page tables that the thread has, too. */
	shared = open_and_close();
	WRITE_ONCE(thread.stop, true);
	wait_for_completion(&thread.done);

	/* Its CPU may still have the page tables loaded, but runs no thread. */
	opened = open_restricted(&map);
	if (opened) {
		alone = cpumask_equal(mm_cpumask(current->mm),
				      cpumask_of(here));
		close_and_leave(&map);
	}
	migrate_enable();
	KUNIT_EXPECT_FALSE(test, shared);
	KUNIT_EXPECT_TRUE(test, opened);
	KUNIT_EXPECT_TRUE(test, alone);
}

/* The entry of page tables for windows, in either address space. */
static pgdval_t windows_of(pgd_t *root, bool restricted)
{
	pgd_t *entry = pgd_offset_pgd(root, EPHMAP_BASE_ADDR);

	return pgd_val(restricted ? *asi_restricted_pgd(entry) : *entry);
}

/* Where it has page tables of its own, those of windows are no others'. */
static void a_cpu_with_a_copy_has_windows(struct kunit *test)
{
	struct mm_struct *mm;
	struct thread thread = {};
	bool alone, opened;
	pgd_t *here;

	ephmap_test_attach(test);
	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	mm = current->mm;
	thread.mm = mm;
	init_completion(&thread.runs);
	init_completion(&thread.done);
	alone = open_and_close();
	run_elsewhere(test, run_thread, &thread, &thread.runs);

	asi_make_copy(mm);
	here = __va(asi_strip_cr3(read_cr3_pa()));
	opened = open_and_close();
	WRITE_ONCE(thread.stop, true);
	wait_for_completion(&thread.done);
	migrate_enable();

	KUNIT_EXPECT_TRUE(test, alone);
	KUNIT_EXPECT_TRUE(test, opened);
	KUNIT_EXPECT_PTR_NE(test, here, mm->pgd);
	KUNIT_EXPECT_NE(test, windows_of(here, false), windows_of(mm->pgd, false));
	KUNIT_EXPECT_NE(test, windows_of(here, true), windows_of(mm->pgd, true));
}

static bool is_like(pgd_t *copy, pgd_t *root, unsigned int i)
{
	return pgd_val(copy[i]) == pgd_val(root[i]) &&
	       pgd_val(asi_restricted_pgd(copy)[i]) ==
		pgd_val(asi_restricted_pgd(root)[i]) &&
	       (!boot_cpu_has(X86_FEATURE_PTI) ||
		(pgd_val(kernel_to_user_pgdp(copy)[i]) ==
		 pgd_val(kernel_to_user_pgdp(root)[i]) &&
		 pgd_val(kernel_to_user_pgdp(asi_restricted_pgd(copy))[i]) ==
		 pgd_val(kernel_to_user_pgdp(asi_restricted_pgd(root))[i])));
}

/* The entries of user mode that a copy has otherwise than the original. */
static unsigned int count_differences(pgd_t *copy, pgd_t *root)
{
	unsigned int i, nr = 0;

	for (i = 0; i < PGD_KERNEL_START; i++)
		nr += !is_like(copy, root, i);
	return nr;
}

/* In a range that has no top-level entry yet, and none afterwards. */
static void a_copy_follows_the_original(struct kunit *test)
{
	unsigned int before, mapped, unmapped, entries = 0, i;
	unsigned long addr, far = PGDIR_SIZE * 3;
	struct mm_struct *mm;
	pgd_t *copy;

	ephmap_test_attach(test);
	mm = current->mm;
	migrate_disable();
	addr = vm_mmap(NULL, PGDIR_SIZE * 2, PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0);
	put_user(1, (int __user *)addr);
	asi_make_copy(mm);
	copy = __va(asi_strip_cr3(read_cr3_pa()));
	for (i = 0; i < PGD_KERNEL_START; i++)
		entries += pgd_val(mm->pgd[i]) != 0;
	before = count_differences(copy, mm->pgd);
	addr = vm_mmap(NULL, far, PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0);
	put_user(1, (int __user *)addr);
	mapped = count_differences(copy, mm->pgd);
	for (i = 0; i < PGD_KERNEL_START; i++)
		entries -= pgd_val(mm->pgd[i]) != 0;
	vm_munmap(addr, PAGE_SIZE);
	unmapped = count_differences(copy, mm->pgd);
	migrate_enable();

	KUNIT_EXPECT_PTR_NE(test, copy, mm->pgd);
	KUNIT_EXPECT_EQ(test, entries, -1);
	KUNIT_EXPECT_EQ(test, before, 0);
	KUNIT_EXPECT_EQ(test, mapped, 0);
	KUNIT_EXPECT_EQ(test, unmapped, 0);
}

enum { READER_WAITS, READER_READS, READER_HAS_READ, READER_ENDS };

/* A thread that reads the windows of another CPU, when it is told to. */
struct reader {
	struct mm_struct *mm;
	struct completion runs, done;
	const u8 *addr;
	int step, while_open, when_closed;
};

static void reader_goes_to(struct reader *reader, int step)
{
	/* Pairs with reader_waits_for(), which sees all written before. */
	smp_store_release(&reader->step, step);
}

static void reader_waits_for(struct reader *reader, int step)
{
	/* Pairs with reader_goes_to(). */
	while (smp_load_acquire(&reader->step) != step)
		cpu_relax();
}

/* As a thread of the process that runs for a moment. */
static int read_once(struct reader *reader)
{
	u8 value;
	int error;

	kthread_use_mm(reader->mm);
	error = copy_from_kernel_nofault(&value, reader->addr, 1);
	kthread_unuse_mm(reader->mm);
	return error;
}

static int run_reader(void *data)
{
	struct reader *reader = data;

	complete(&reader->runs);
	reader_waits_for(reader, READER_READS);
	reader->while_open = read_once(reader);
	reader_goes_to(reader, READER_HAS_READ);
	reader_waits_for(reader, READER_ENDS);
	reader->when_closed = read_once(reader);
	complete(&reader->done);
	return 0;
}

/* As one that runs on when the window is closed. */
static int run_staying_reader(void *data)
{
	struct reader *reader = data;
	u8 value;

	complete(&reader->runs);
	reader_waits_for(reader, READER_READS);
	kthread_use_mm(reader->mm);
	reader->while_open = copy_from_kernel_nofault(&value, reader->addr, 1);
	reader_goes_to(reader, READER_HAS_READ);
	reader_waits_for(reader, READER_ENDS);
	reader->when_closed = copy_from_kernel_nofault(&value, reader->addr, 1);
	kthread_unuse_mm(reader->mm);
	complete(&reader->done);
	return 0;
}

static bool read_on_other_cpu(struct kunit *test, struct folio *folio,
			      int (*run)(void *data), struct reader *reader)
{
	struct ephmap map;
	bool opened;

	reader->mm = current->mm;
	init_completion(&reader->runs);
	init_completion(&reader->done);
	run_elsewhere(test, run, reader, &reader->runs);

	opened = open_restricted(&map);
	if (opened)
		reader->addr = ephmap_add(&map, &folio->page, 1);
	reader_goes_to(reader, READER_READS);
	reader_waits_for(reader, READER_HAS_READ);
	if (opened)
		close_and_leave(&map);
	reader_goes_to(reader, READER_ENDS);
	wait_for_completion(&reader->done);
	migrate_enable();
	return opened;
}

/*
 * A CPU that has run a thread keeps entries of the process while it does not.
 * Another task may have them flushed for its own reasons, but not each time.
 */
static void expect_none_left(struct kunit *test, int (*run)(void *data))
{
	struct folio *folio;
	int i;

	ephmap_test_attach(test);
	if (num_online_cpus() < 2)
		kunit_skip(test, "needs two CPUs");
	folio = ephmap_test_folio(test, 0);

	for (i = 0; i < ROUNDS; i++) {
		struct reader reader = { .step = READER_WAITS };

		KUNIT_EXPECT_TRUE(test, read_on_other_cpu(test, folio, run,
							  &reader));
		KUNIT_EXPECT_EQ(test, reader.while_open, 0);
		KUNIT_EXPECT_NE(test, reader.when_closed, 0);
	}
}

static void none_is_left_on_other_cpus(struct kunit *test)
{
	expect_none_left(test, run_reader);
}

static void none_is_left_where_threads_run(struct kunit *test)
{
	expect_none_left(test, run_staying_reader);
}

/* === Copies =============================================================== */

#define NR_PAGES	(2 * EPHMAP_PAGES)
#define SIZE		(NR_PAGES * PAGE_SIZE)

static u8 value_at(size_t at)
{
	return at % 251;
}

static struct folio *ephmap_test_filled(struct kunit *test)
{
	struct folio *folio = ephmap_test_folio(test, ilog2(NR_PAGES));
	u8 *addr = folio_address(folio);
	size_t i;

	for (i = 0; i < SIZE; i++)
		addr[i] = value_at(i);
	return folio;
}

static unsigned long map_user(struct kunit *test, size_t size)
{
	unsigned long addr = kunit_vm_mmap(test, NULL, 0, size,
					   PROT_READ | PROT_WRITE,
					   MAP_ANONYMOUS | MAP_PRIVATE, 0);

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	return addr;
}

static size_t count_wrong(struct kunit *test, unsigned long user, size_t offset,
			  size_t bytes)
{
	u8 *copy = kunit_kzalloc(test, bytes, GFP_KERNEL);
	size_t i, wrong = 0;

	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_ASSERT_EQ(test, copy_from_user(copy, (void __user *)user, bytes), 0);
	for (i = 0; i < bytes; i++)
		wrong += copy[i] != value_at(offset + i);
	return wrong;
}

/* Be restricted, and remember how many windows this CPU has opened so far. */
static unsigned long begin_counting(void)
{
	migrate_disable();
	restrict_cpu();
	return raw_cpu_read(asi_switches[ASI_EPHMAP]);
}

/* Leave, and return how many it has opened since then. */
static unsigned long end_counting(unsigned long before)
{
	unsigned long windows;

	ephmap_test_leave();
	windows = raw_cpu_read(asi_switches[ASI_EPHMAP]) - before;
	migrate_enable();
	return windows;
}

/* Returns the number of windows that it took. */
static unsigned long copy_part(struct kunit *test, struct folio *folio,
			       size_t offset, size_t bytes)
{
	/* The destination is not yet populated. */
	unsigned long user = map_user(test, SIZE);
	unsigned long windows;
	struct iov_iter iter;
	size_t copied;

	KUNIT_ASSERT_EQ(test, import_ubuf(ITER_DEST, (void __user *)user,
					  bytes, &iter), 0);
	windows = begin_counting();
	copied = asi_copy_folio_to_iter(NULL, folio, offset, bytes, &iter);
	windows = end_counting(windows);
	KUNIT_EXPECT_EQ(test, copied, bytes);
	KUNIT_EXPECT_EQ(test, iov_iter_count(&iter), 0);
	KUNIT_EXPECT_EQ(test, count_wrong(test, user, offset, bytes), 0);
	return windows;
}

static void copies_to_users(struct kunit *test)
{
	/* Within a page, across pages, across windows, and everything. */
	static const struct {
		size_t offset, bytes;
	} parts[] = {
		{ 1, 3 },
		{ PAGE_SIZE - 1, 2 },
		{ EPHMAP_PAGES * PAGE_SIZE - 7, 14 },
		{ 5, EPHMAP_PAGES * PAGE_SIZE },
		{ 0, SIZE },
	};
	struct folio *folio;
	int i, tries;

	ephmap_test_attach(test);
	folio = ephmap_test_filled(test);
	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		for (tries = 0; tries < TRIES; tries++)
			if (copy_part(test, folio, parts[i].offset,
				      parts[i].bytes))
				break;
		KUNIT_EXPECT_LT(test, tries, TRIES);
	}
}

static void copies_end_where_memory_does(struct kunit *test)
{
	struct iov_iter iter;
	unsigned long user;
	struct folio *folio;
	size_t copied;

	ephmap_test_attach(test);
	folio = ephmap_test_filled(test);
	user = map_user(test, 2 * PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, vm_munmap(user + PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_ASSERT_EQ(test, import_ubuf(ITER_DEST, (void __user *)user + 16,
					  2 * PAGE_SIZE - 16, &iter), 0);
	restrict_cpu();
	copied = asi_copy_folio_to_iter(NULL, folio, 0, 2 * PAGE_SIZE - 16, &iter);
	ephmap_test_leave();
	KUNIT_EXPECT_EQ(test, copied, PAGE_SIZE - 16);
	KUNIT_EXPECT_EQ(test, count_wrong(test, user + 16, 0, copied), 0);
}

/* Returns the number of windows in which a page of a file was written. */
static unsigned long write_page(struct kunit *test, struct file *file,
				struct folio *folio, struct iov_iter *iter)
{
	unsigned long windows;
	size_t copied;

	windows = begin_counting();
	copied = asi_copy_folio_from_iter_atomic(file, folio, 0, PAGE_SIZE, iter);
	windows = end_counting(windows);
	KUNIT_EXPECT_EQ(test, copied, PAGE_SIZE);
	return windows;
}

/* Does a process write a file in windows, and is all of it there? */
static bool writes_in_windows(struct kunit *test, struct file *file,
			      struct folio *folio, unsigned long user)
{
	struct iov_iter iter;
	bool windows = false;
	int tries;

	for (tries = 0; tries < TRIES && !windows; tries++) {
		memset(folio_address(folio), 0, PAGE_SIZE);
		KUNIT_ASSERT_EQ(test, import_ubuf(ITER_SOURCE, (void __user *)user,
						  PAGE_SIZE, &iter), 0);
		windows = write_page(test, file, folio, &iter);
		KUNIT_EXPECT_NULL(test, memchr_inv(folio_address(folio), VALUE,
						   PAGE_SIZE));
	}
	return windows;
}

/* A window shows all of a page, and so what is in the file already. */
static void writers_see_what_they_may_read(struct kunit *test)
{
	u8 *page = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct kvec buffer = { .iov_base = page, .iov_len = PAGE_SIZE };
	unsigned long user, windows = 0;
	struct iov_iter iter;
	struct folio *folio;
	struct file *file;
	struct cred *cred;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page, VALUE, PAGE_SIZE);
	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	user = map_user(test, PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)user, page, PAGE_SIZE), 0);
	file = ephmap_test_file(test);

	/* Open for reading, and by its owner, who could open it so. */
	KUNIT_EXPECT_TRUE(test, writes_in_windows(test, file, folio, user));
	file->f_mode &= ~FMODE_READ;
	KUNIT_EXPECT_TRUE(test, writes_in_windows(test, file, folio, user));
	/* In the name of somebody else, and by another user. */
	cred = prepare_creds();
	if (cred) {
		const struct cred *old = override_creds(cred);

		KUNIT_EXPECT_FALSE(test, writes_in_windows(test, file, folio,
							   user));
		put_cred(revert_creds(old));
	}
	KUNIT_EXPECT_NOT_NULL(test, cred);
	file_inode(file)->i_uid = KUIDT_INIT(1);
	KUNIT_EXPECT_FALSE(test, writes_in_windows(test, file, folio, user));
	/* The owner does not matter if it is open for reading. */
	file->f_mode |= FMODE_READ;
	KUNIT_EXPECT_TRUE(test, writes_in_windows(test, file, folio, user));

	/* By the kernel, which may write for anybody. */
	for (i = 0; i < TRIES; i++) {
		iov_iter_kvec(&iter, ITER_SOURCE, &buffer, 1, PAGE_SIZE);
		windows += write_page(test, file, folio, &iter);
	}
	KUNIT_EXPECT_EQ(test, windows, 0);
	fput(file);
}

#ifdef CONFIG_FS_IOMAP
/* All of the file is to be written for the first time. */
static int ephmap_test_iomap(struct inode *inode, loff_t pos, loff_t length,
			     unsigned int flags, struct iomap *iomap,
			     struct iomap *unused)
{
	iomap->type = IOMAP_DELALLOC;
	iomap->flags = IOMAP_F_NEW;
	iomap->offset = pos;
	iomap->length = length;
	return 0;
}

/* Returns the number of windows in which a file system with iomap wrote a page. */
static unsigned long write_by_iomap(struct kunit *test, struct file *file,
				    unsigned long user)
{
	static const struct iomap_ops ops = { .iomap_begin = ephmap_test_iomap };
	struct kiocb kiocb = { .ki_filp = file };
	unsigned long windows;
	struct iov_iter iter;
	ssize_t written;

	KUNIT_ASSERT_EQ(test, import_ubuf(ITER_SOURCE, (void __user *)user,
					  PAGE_SIZE, &iter), 0);
	inode_lock(file_inode(file));
	windows = begin_counting();
	written = iomap_file_buffered_write(&kiocb, &iter, &ops, NULL, NULL);
	windows = end_counting(windows);
	inode_unlock(file_inode(file));
	KUNIT_EXPECT_EQ(test, written, PAGE_SIZE);
	return windows;
}

static void iomap_writes_in_windows(struct kunit *test)
{
	const struct address_space_operations *a_ops;
	struct address_space *mapping;
	struct folio *folio;
	struct file *file;
	unsigned long user;
	int tries;

	ephmap_test_attach(test);
	user = map_user(test, PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, put_user(VALUE, (u8 __user *)user), 0);
	file = ephmap_test_file(test);
	mapping = file->f_mapping;
	/* It marks pages dirty, which those of shared memory must not be. */
	a_ops = mapping->a_ops;
	mapping->a_ops = &ram_aops;
	for (tries = 0; tries < TRIES; tries++)
		if (write_by_iomap(test, file, user))
			break;
	KUNIT_EXPECT_LT(test, tries, TRIES);

	folio = filemap_get_folio(mapping, 0);
	KUNIT_EXPECT_FALSE(test, IS_ERR(folio));
	if (!IS_ERR(folio)) {
		KUNIT_EXPECT_EQ(test, *(u8 *)folio_address(folio), VALUE);
		folio_put(folio);
	}
	truncate_inode_pages(mapping, 0);
	mapping->a_ops = a_ops;
	fput(file);
}
#endif

/* Returns the number of windows in which a page was copied for a process. */
static unsigned long copy_on_write(struct kunit *test, struct folio *to,
				   struct folio *from, struct mm_struct *mm)
{
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	unsigned long windows;
	int error;

	KUNIT_ASSERT_NOT_NULL(test, vma);
	vma->vm_mm = mm;
	memset(folio_address(to), 0, PAGE_SIZE);
	windows = begin_counting();
	error = asi_copy_user_page(&to->page, &from->page, 0, vma);
	windows = end_counting(windows);
	KUNIT_EXPECT_EQ(test, error, 0);
	KUNIT_EXPECT_MEMEQ(test, (u8 *)folio_address(to),
			   (u8 *)folio_address(from), PAGE_SIZE);
	return windows;
}

/* A debugger writes to memory of a process that it need not know all of. */
static void pages_are_seen_by_their_process_only(struct kunit *test)
{
	unsigned long seen = 0, by_another = 0;
	struct folio *to, *from;
	struct mm_struct *other;
	int i;

	ephmap_test_attach(test);
	from = ephmap_test_folio(test, 0);
	to = ephmap_test_folio(test, 0);
	memset(folio_address(from), VALUE, PAGE_SIZE);
	other = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, other);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_other, other),
			0);

	for (i = 0; i < TRIES; i++) {
		seen += copy_on_write(test, to, from, current->mm);
		by_another += copy_on_write(test, to, from, other);
	}
	KUNIT_EXPECT_GT(test, seen, 0);
	KUNIT_EXPECT_EQ(test, by_another, 0);
}

/* === Programs that are executed =========================================== */

#define WORD		"a word"
#define AT		100

/* Returns the number of windows that it took. */
static unsigned long copy_word(struct folio *folio, const char __user *word)
{
	void *to = folio_address(folio) + AT;
	unsigned long windows, left;

	windows = begin_counting();
	left = asi_copy_argument(folio_page(folio, 0), to, word, sizeof(WORD));
	asi_copy_argument_kernel(folio_page(folio, 0), 2 * AT, WORD, sizeof(WORD));
	windows = end_counting(windows);
	return left ? 0 : windows;
}

static void arguments_are_copied(struct kunit *test)
{
	struct folio *folio;
	unsigned long user;
	char *at;
	int tries;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	at = folio_address(folio);
	user = map_user(test, PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)user, WORD, sizeof(WORD)), 0);
	for (tries = 0; tries < TRIES; tries++) {
		memset(at, 0, PAGE_SIZE);
		if (copy_word(folio, (char __user *)user) == 2)
			break;
		KUNIT_EXPECT_STREQ(test, at + AT, WORD);
	}
	KUNIT_EXPECT_LT(test, tries, TRIES);
	KUNIT_EXPECT_STREQ(test, at + AT, WORD);
	KUNIT_EXPECT_STREQ(test, at + 2 * AT, WORD);
	KUNIT_EXPECT_NULL(test, memchr_inv(at, 0, AT));
}

/* An argument that has to be read in first is copied as well. */
static void absent_arguments_are_copied(struct kunit *test)
{
	struct folio *folio;
	unsigned long user;
	char *at;

	ephmap_test_attach(test);
	folio = ephmap_test_folio(test, 0);
	at = folio_address(folio);
	memset(at, 1, PAGE_SIZE);
	user = map_user(test, PAGE_SIZE);
	copy_word(folio, (char __user *)user);
	KUNIT_EXPECT_NULL(test, memchr_inv(at + AT, 0, sizeof(WORD)));
	KUNIT_EXPECT_EQ(test, at[AT + sizeof(WORD)], 1);
}

/* Returns the number of windows in which the kernel read a file for itself. */
static unsigned long read_for_kernel(struct kunit *test, struct file *file,
				     struct folio *folio)
{
	struct kvec buffer = {
		.iov_base = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL),
		.iov_len = PAGE_SIZE,
	};
	unsigned long windows;
	struct iov_iter iter;
	size_t copied;

	KUNIT_ASSERT_NOT_NULL(test, buffer.iov_base);
	iov_iter_kvec(&iter, ITER_DEST, &buffer, 1, PAGE_SIZE);
	windows = begin_counting();
	copied = asi_copy_folio_to_iter(file, folio, 0, PAGE_SIZE, &iter);
	windows = end_counting(windows);
	KUNIT_EXPECT_EQ(test, copied, PAGE_SIZE);
	KUNIT_EXPECT_MEMEQ(test, buffer.iov_base, folio_address(folio), PAGE_SIZE);
	return windows;
}

/* In the name of another user, the process might learn what it must not. */
static void the_kernel_reads_in_windows(struct kunit *test)
{
	const struct cred *old;
	struct folio *folio;
	struct file *file;
	struct cred *cred;
	int tries;

	ephmap_test_attach(test);
	folio = ephmap_test_filled(test);
	file = ephmap_test_file(test);
	for (tries = 0; tries < TRIES; tries++)
		if (read_for_kernel(test, file, folio))
			break;
	KUNIT_EXPECT_LT(test, tries, TRIES);

	cred = prepare_creds();
	if (cred) {
		old = override_creds(cred);
		KUNIT_EXPECT_EQ(test, read_for_kernel(test, file, folio), 0);
		put_cred(revert_creds(old));
	}
	KUNIT_EXPECT_NOT_NULL(test, cred);
	fput(file);
}

static int deny(struct mnt_idmap *idmap, struct inode *inode, int mask)
{
	return -EACCES;
}

static const struct inode_operations denying = { .permission = deny };

/* As of a program that may be executed, and not read. */
static void the_kernel_reads_unseen_what_is_denied(struct kunit *test)
{
	const struct inode_operations *before;
	unsigned long windows = 0;
	struct inode *inode;
	struct folio *folio;
	struct file *file;
	int i;

	ephmap_test_attach(test);
	folio = ephmap_test_filled(test);
	file = ephmap_test_file(test);
	inode = file_inode(file);
	before = inode->i_op;
	inode->i_op = &denying;
	for (i = 0; i < TRIES; i++)
		windows += read_for_kernel(test, file, folio);
	inode->i_op = before;
	KUNIT_EXPECT_EQ(test, windows, 0);
	fput(file);
}

static struct kunit_case asi_ephmap_cases[] = {
	KUNIT_CASE(pages_are_mapped_until_it_is_closed),
	KUNIT_CASE(it_holds_so_many_pages),
	KUNIT_CASE(too_many_pages_are_refused),
	KUNIT_CASE(it_is_in_both_address_spaces),
	KUNIT_CASE(none_is_left_where_it_was_left),
	KUNIT_CASE(none_is_left_where_it_was_opened),
	KUNIT_CASE(closing_spares_what_was_not_left),
	KUNIT_CASE(it_is_of_one_process),
	KUNIT_CASE(none_without_need),
	KUNIT_CASE(none_in_interrupts),
	KUNIT_CASE(none_in_softirqs),
	KUNIT_CASE(none_without_memory),
	KUNIT_CASE(other_threads_have_none_of_it),
	KUNIT_CASE(a_cpu_with_a_copy_has_windows),
	KUNIT_CASE(a_copy_follows_the_original),
	KUNIT_CASE(none_is_left_on_other_cpus),
	KUNIT_CASE(none_is_left_where_threads_run),
	KUNIT_CASE(copies_to_users),
	KUNIT_CASE(copies_end_where_memory_does),
	KUNIT_CASE(writers_see_what_they_may_read),
#ifdef CONFIG_FS_IOMAP
	KUNIT_CASE(iomap_writes_in_windows),
#endif
	KUNIT_CASE(pages_are_seen_by_their_process_only),
	KUNIT_CASE(arguments_are_copied),
	KUNIT_CASE(absent_arguments_are_copied),
	KUNIT_CASE(the_kernel_reads_in_windows),
	KUNIT_CASE(the_kernel_reads_unseen_what_is_denied),
	{}
};

static struct kunit_suite asi_ephmap_suite = {
	.name = "asi_ephmap",
	.test_cases = asi_ephmap_cases,
};

kunit_test_suite(asi_ephmap_suite);
