// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of address space isolation: pipes. They need asi=on. */
#include <kunit/test.h>
#include <linux/asi.h>
#include <linux/asi_pipe.h>
#include <linux/completion.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/pagemap.h>
#include <linux/pipe_fs_i.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include <asm/asi.h>

#define VALUE	0x5a
#define SIZE	100
/* Retries, because an interrupt may leave the restricted address space. */
#define TRIES	100

/* === A page of a pipe ==================================================== */

struct pipe_page {
	struct pipe_buffer buf;
	/* Memory of the process, filled with VALUE, and nothing behind it. */
	void __user *user;
};

static void put_it(void *page)
{
	put_page(page);
}

static void pipe_page_init(struct kunit *test, struct pipe_page *it)
{
	unsigned long user;
	size_t i;

	if (!asi_enabled())
		kunit_skip(test, "needs asi=on");
	KUNIT_ASSERT_EQ(test, kunit_attach_mm(), 0);

	*it = (struct pipe_page){};
	it->buf.page = alloc_page(GFP_HIGHUSER);
	KUNIT_ASSERT_NOT_NULL(test, it->buf.page);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, put_it,
							it->buf.page), 0);

	user = kunit_vm_mmap(test, NULL, 0, 2 * PAGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(user));
	KUNIT_ASSERT_EQ(test, vm_munmap(user + PAGE_SIZE, PAGE_SIZE), 0);
	it->user = (void __user *)user;
	for (i = 0; i < PAGE_SIZE; i++)
		KUNIT_ASSERT_EQ(test, put_user(VALUE, (u8 __user *)it->user + i), 0);
}

static void restrict_cpu(void)
{
	unsigned long flags;

	local_irq_save(flags);
	asi_enter();
	local_irq_restore(flags);
}

static void leave(void)
{
	unsigned long flags;

	local_irq_save(flags);
	asi_exit(ASI_EXIT_TEMPORARY_MM);
	local_irq_restore(flags);
}

/* As a system call; returns how many windows it took. */
static unsigned long copy(struct pipe_page *it, bool write, size_t bytes,
			  struct iov_iter *iter)
{
	struct pipe_buffer *buf = &it->buf;
	unsigned long windows;
	size_t copied;

	migrate_disable();
	windows = raw_cpu_read(asi_switches[ASI_EPHMAP]);
	restrict_cpu();
	if (write)
		copied = asi_copy_to_pipe(buf->page, buf->offset + buf->len,
					  bytes, iter);
	else
		copied = asi_copy_from_pipe(buf, true, bytes, iter);
	leave();
	windows = raw_cpu_read(asi_switches[ASI_EPHMAP]) - windows;
	migrate_enable();

	if (copied < bytes)
		return windows;
	if (write) {
		buf->len += bytes;
	} else {
		buf->offset += bytes;
		buf->len -= bytes;
	}
	return windows;
}

static unsigned long copy_user(struct kunit *test, struct pipe_page *it,
			       bool write, size_t bytes)
{
	struct iov_iter iter;

	KUNIT_ASSERT_EQ(test, import_ubuf(write ? ITER_SOURCE : ITER_DEST,
					  it->user, bytes, &iter), 0);
	return copy(it, write, bytes, &iter);
}

static unsigned long copy_kernel(struct pipe_page *it, bool write, size_t bytes)
{
	u8 value[SIZE];
	struct kvec vec = { .iov_base = value, .iov_len = bytes };
	struct iov_iter iter;

	memset(value, VALUE, sizeof(value));
	iov_iter_kvec(&iter, write ? ITER_SOURCE : ITER_DEST, &vec, 1, bytes);
	return copy(it, write, bytes, &iter);
}

static size_t count_left(struct page *page)
{
	u8 *addr = kmap_local_page(page);
	size_t i, left = 0;

	for (i = 0; i < PAGE_SIZE; i++)
		left += addr[i] != 0;
	kunmap_local(addr);
	return left;
}

static void expect_left(struct kunit *test, struct pipe_page *it, size_t bytes)
{
	KUNIT_EXPECT_EQ(test, count_left(it->buf.page), bytes);
	KUNIT_EXPECT_EQ(test, asi_pipe_is_clean(it->buf.page), !bytes);
}

/* === What is left in it ================================================== */

static void readers_clear_what_they_take(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	expect_left(test, &it, SIZE);
	copy_user(test, &it, false, 60);
	expect_left(test, &it, SIZE - 60);
	copy_user(test, &it, false, SIZE - 60);
	expect_left(test, &it, 0);
}

static void the_kernel_clears_what_it_takes(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_kernel(&it, true, SIZE);
	expect_left(test, &it, SIZE);
	copy_kernel(&it, false, SIZE);
	expect_left(test, &it, 0);
}

/* As by tee(): the other pipe has not read it. */
static void what_is_shared_is_left(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	asi_pipe_share(it.buf.page);
	KUNIT_EXPECT_EQ(test, copy_user(test, &it, false, SIZE), 0);
	KUNIT_EXPECT_EQ(test, it.buf.len, 0);
	expect_left(test, &it, SIZE);
}

/* As a socket has: nothing says when it is given back. */
static void what_another_uses_is_left(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	get_page(it.buf.page);
	copy_user(test, &it, false, SIZE);
	put_page(it.buf.page);
	KUNIT_EXPECT_EQ(test, it.buf.len, 0);
	expect_left(test, &it, SIZE);
}

/* As splice() does. */
static void what_was_taken_otherwise_is_left(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	it.buf.offset += 10;
	it.buf.len -= 10;
	KUNIT_EXPECT_EQ(test, copy_user(test, &it, false, SIZE - 10), 0);
	KUNIT_EXPECT_EQ(test, it.buf.len, 0);
	expect_left(test, &it, SIZE);
}

/* As a driver does that takes a part, and leaves the page in the pipe. */
static void what_was_stolen_is_left(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	asi_pipe_forget(it.buf.page);
	KUNIT_EXPECT_FALSE(test, asi_pipe_is_clean(it.buf.page));
	KUNIT_EXPECT_EQ(test, copy_user(test, &it, true, SIZE), 0);
	KUNIT_EXPECT_EQ(test, copy_user(test, &it, false, SIZE), 0);
	KUNIT_EXPECT_EQ(test, copy_user(test, &it, false, SIZE), 0);
	KUNIT_EXPECT_EQ(test, it.buf.len, 0);
	expect_left(test, &it, 2 * SIZE);
}

/* Something may have been written that does not count. */
static void a_short_copy_leaves_something(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	it.user += PAGE_SIZE - SIZE;
	copy_user(test, &it, true, SIZE);
	copy_user(test, &it, false, SIZE);
	expect_left(test, &it, 0);

	it.user += SIZE;
	it.buf.offset = 0;
	copy_user(test, &it, true, SIZE);
	KUNIT_EXPECT_EQ(test, it.buf.len, 0);
	KUNIT_EXPECT_FALSE(test, asi_pipe_is_clean(it.buf.page));
}

static void a_short_read_takes_nothing(struct kunit *test)
{
	struct pipe_page it;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	it.user += PAGE_SIZE - SIZE / 2;
	copy_user(test, &it, false, SIZE);
	KUNIT_EXPECT_EQ(test, it.buf.len, SIZE);
	expect_left(test, &it, SIZE);
}

/* As the page cache of a file is in a pipe, by splice(). */
static void what_is_of_a_file_is_left(struct kunit *test)
{
	struct pipe_page it;
	struct iov_iter iter;

	pipe_page_init(test, &it);
	copy_user(test, &it, true, SIZE);
	KUNIT_ASSERT_EQ(test, import_ubuf(ITER_DEST, it.user, SIZE, &iter), 0);
	KUNIT_EXPECT_EQ(test, asi_copy_from_pipe(&it.buf, false, SIZE, &iter),
			SIZE);
	expect_left(test, &it, SIZE);
}

/* === Who maps it in a window ============================================= */

static void the_first_writer_and_the_reader(struct kunit *test)
{
	unsigned long written = 0, read = 0;
	struct pipe_page it;
	int i;

	pipe_page_init(test, &it);
	for (i = 0; i < TRIES && !(written && read); i++) {
		it.buf.offset = 0;
		written = copy_user(test, &it, true, SIZE);
		read = copy_user(test, &it, false, SIZE);
	}
	KUNIT_EXPECT_NE(test, written, 0);
	KUNIT_EXPECT_NE(test, read, 0);
	expect_left(test, &it, 0);
}

static void a_writer_that_adds_to_its_own(struct kunit *test)
{
	unsigned long added = 0;
	struct pipe_page it;
	int i;

	pipe_page_init(test, &it);
	for (i = 0; i < TRIES && !added; i++) {
		it.buf.offset = 0;
		copy_user(test, &it, true, 1);
		added = copy_user(test, &it, true, 1);
		copy_user(test, &it, false, 2);
	}
	KUNIT_EXPECT_NE(test, added, 0);
}

static void none_that_adds_to_the_kernel_s(struct kunit *test)
{
	struct pipe_page it;
	int i;

	pipe_page_init(test, &it);
	copy_kernel(&it, true, 1);
	for (i = 1; i < SIZE; i++)
		KUNIT_EXPECT_EQ(test, copy_user(test, &it, true, 1), 0);
	expect_left(test, &it, SIZE);
	/* Nor does the kernel itself: others have written by now. */
	for (i = 0; i < TRIES; i++)
		KUNIT_EXPECT_EQ(test, copy_kernel(&it, true, 1), 0);
	expect_left(test, &it, SIZE + TRIES);
}

struct other {
	struct pipe_page *it;
	struct mm_struct *mm;
	struct completion done;
	unsigned long windows;
};

static int add_as_another(void *data)
{
	struct other *other = data;
	struct pipe_page it = *other->it;
	struct iov_iter iter;
	unsigned long user;

	kthread_use_mm(other->mm);
	user = vm_mmap(NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_ANONYMOUS | MAP_PRIVATE, 0);
	if (!IS_ERR_VALUE(user) && !clear_user((void __user *)user, PAGE_SIZE) &&
	    !import_ubuf(ITER_SOURCE, (void __user *)user, 1, &iter))
		other->windows = copy(&it, true, 1, &iter);
	kthread_unuse_mm(other->mm);
	other->it->buf.len = it.buf.len;
	complete(&other->done);
	return 0;
}

static void none_that_adds_to_another_s(struct kunit *test)
{
	struct other other = {};
	struct task_struct *task;
	struct pipe_page it;
	int i;

	pipe_page_init(test, &it);
	other.it = &it;
	init_completion(&other.done);
	other.mm = mm_alloc();
	KUNIT_ASSERT_NOT_NULL(test, other.mm);
	arch_pick_mmap_layout(other.mm, &current->signal->rlim[RLIMIT_STACK]);

	copy_user(test, &it, true, 1);
	task = kthread_run(add_as_another, &other, "asi_pipe");
	if (!IS_ERR(task))
		wait_for_completion(&other.done);
	mmput(other.mm);
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	KUNIT_EXPECT_EQ(test, it.buf.len, 2);
	KUNIT_EXPECT_EQ(test, other.windows, 0);

	/* Nor the first one from then on. */
	for (i = 0; i < TRIES; i++)
		KUNIT_EXPECT_EQ(test, copy_user(test, &it, true, 1), 0);
}

/* === A whole pipe ========================================================= */

static void pages_are_kept_if_they_are_clean(struct kunit *test)
{
	struct pipe_inode_info *pipe;
	struct pipe_buffer *buf;
	struct file *files[2];
	u8 value = VALUE;
	size_t left;
	int kept;

	if (!asi_enabled())
		kunit_skip(test, "needs asi=on");
	KUNIT_ASSERT_EQ(test, create_pipe_files(files, 0), 0);
	pipe = files[0]->private_data;

	KUNIT_EXPECT_EQ(test, kernel_write(files[1], &value, 1, NULL), 1);
	KUNIT_EXPECT_EQ(test, kernel_read(files[0], &value, 1, NULL), 1);
	kept = pipe->prealloc.count;
	left = kept ? count_left(pipe->prealloc.pages[0]) : 0;
	KUNIT_EXPECT_EQ(test, value, VALUE);
	KUNIT_EXPECT_EQ(test, kept, 1);
	KUNIT_EXPECT_EQ(test, left, 0);

	/* As tee() does, and its pipe is closed before this one is read. */
	KUNIT_EXPECT_EQ(test, kernel_write(files[1], &value, 1, NULL), 1);
	buf = pipe_buf(pipe, pipe->tail);
	if (pipe_buf_get(pipe, buf))
		put_page(buf->page);
	KUNIT_EXPECT_EQ(test, kernel_read(files[0], &value, 1, NULL), 1);
	KUNIT_EXPECT_EQ(test, value, VALUE);
	KUNIT_EXPECT_EQ(test, pipe->prealloc.count, 0);

	fput(files[0]);
	fput(files[1]);
}

/* Its new owner may expect what any new page has. */
static void nothing_is_noted_with_a_stolen_page(struct kunit *test)
{
	struct pipe_inode_info *pipe;
	unsigned long before, after;
	struct pipe_buffer *buf;
	struct file *files[2];
	u8 value = VALUE;
	bool stolen;

	if (!asi_enabled())
		kunit_skip(test, "needs asi=on");
	KUNIT_ASSERT_EQ(test, create_pipe_files(files, 0), 0);
	pipe = files[0]->private_data;

	KUNIT_EXPECT_EQ(test, kernel_write(files[1], &value, 1, NULL), 1);
	buf = pipe_buf(pipe, pipe->tail);
	before = page_private(buf->page);
	stolen = pipe_buf_try_steal(pipe, buf);
	after = page_private(buf->page);
	if (stolen)
		unlock_page(buf->page);
	KUNIT_EXPECT_TRUE(test, stolen);
	KUNIT_EXPECT_NE(test, before, 0);
	KUNIT_EXPECT_EQ(test, after, 0);

	fput(files[0]);
	fput(files[1]);
}

static struct kunit_case asi_pipe_cases[] = {
	KUNIT_CASE(readers_clear_what_they_take),
	KUNIT_CASE(the_kernel_clears_what_it_takes),
	KUNIT_CASE(what_is_shared_is_left),
	KUNIT_CASE(what_another_uses_is_left),
	KUNIT_CASE(what_was_taken_otherwise_is_left),
	KUNIT_CASE(what_was_stolen_is_left),
	KUNIT_CASE(a_short_copy_leaves_something),
	KUNIT_CASE(a_short_read_takes_nothing),
	KUNIT_CASE(what_is_of_a_file_is_left),
	KUNIT_CASE(the_first_writer_and_the_reader),
	KUNIT_CASE(a_writer_that_adds_to_its_own),
	KUNIT_CASE(none_that_adds_to_the_kernel_s),
	KUNIT_CASE(none_that_adds_to_another_s),
	KUNIT_CASE(pages_are_kept_if_they_are_clean),
	KUNIT_CASE(nothing_is_noted_with_a_stolen_page),
	{}
};

static struct kunit_suite asi_pipe_suite = {
	.name = "asi_pipe",
	.test_cases = asi_pipe_cases,
};

kunit_test_suite(asi_pipe_suite);
