// SPDX-License-Identifier: GPL-2.0-only
/* KUnit tests of credentials: who writes them, and which task has which. */
#include <kunit/static_stub.h>
#include <linux/binfmts.h>
#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/kpkeys_cred.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "test.h"
#include "../cred.h"
#include "../objects.h"
#include "../pool.h"

#define skip_unless_credentials_are_protected(test)			\
	do {								\
		if (!kpkeys_hardened_cred_enabled())			\
			kunit_skip(test, "credentials are not hardened in this boot"); \
	} while (0)

static struct cred *prepared(struct kunit *test)
{
	struct cred *cred = prepare_creds();

	KUNIT_ASSERT_NOT_NULL(test, cred);
	return cred;
}

/* === Content ============================================================ */

static void credentials_are_protected(struct kunit *test)
{
	int err = kpkeys_hardened_cred_enabled() ? -EFAULT : 0;
	const struct cred *cred = current_cred();
	struct cred *new = prepared(test);

	KUNIT_EXPECT_EQ(test, probe_write((void *)&cred->cap_effective), err);
	KUNIT_EXPECT_EQ(test, probe_write((void *)&cred->user_ns), err);
	KUNIT_EXPECT_EQ(test, probe_write(&new->cap_effective), err);
	KUNIT_EXPECT_EQ(test, probe_write((void *)&kernel_cred()->cap_effective),
			IS_ENABLED(CONFIG_KPKEYS_HARDENED_STATE) &&
			kpkeys_hardened_state_enabled() ? -EFAULT : 0);
	/* Each open file writes here. */
	KUNIT_EXPECT_EQ(test, probe_write(&cred_ref(cred)->usage), 0);
	abort_creds(new);
	EXPECT_LEVEL_DEFAULT(test);
}

static void levels_write_only_what_is_theirs(struct kunit *test)
{
	struct cred *cred = (struct cred *)current_cred(), *new;
	struct page *table;

	skip_unless_credentials_are_protected(test);

	new = prepared(test);
	table = kpkeys_pgtable_alloc(GFP_KERNEL, 0, KPKEYS_ANY_LEVEL);
	KUNIT_ASSERT_NOT_NULL(test, table);

	kpkeys_expect_violation(true);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_CRED, new), 0);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_CRED, current->kpkeys_task), 0);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_CRED, page_address(table)), -EFAULT);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_PGTABLES, new), -EFAULT);
	KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_PGTABLES, current->kpkeys_task), -EFAULT);
	if (IS_ENABLED(CONFIG_KPKEYS_HARDENED_STATE) && kpkeys_hardened_state_enabled()) {
		KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_CRED, &suid_dumpable), -EFAULT);
		KUNIT_EXPECT_EQ(test, write_at(KPKEYS_LVL_STATE, cred), -EFAULT);
	}
	kpkeys_expect_violation(false);
	EXPECT_LEVEL_DEFAULT(test);
	kpkeys_pgtable_free(table);
	abort_creds(new);
}

static void prepared_credentials_are_written(struct kunit *test)
{
	kernel_cap_t caps = { BIT_ULL(CAP_CHOWN) | BIT_ULL(CAP_KILL) };
	struct cred *new = prepared(test);
	kuid_t uid = KUIDT_INIT(1234);

	KUNIT_EXPECT_TRUE(test, uid_eq(cred_set(new, euid, uid), uid));
	KUNIT_EXPECT_TRUE(test, uid_eq(new->euid, uid));
	cred_set(new, cap_effective, caps);
	cred_change_caps(new, cap_effective, cap_lower, CAP_KILL);
	KUNIT_EXPECT_EQ(test, new->cap_effective.val, BIT_ULL(CAP_CHOWN));
	cred_change_caps(new, cap_effective, cap_clear);
	KUNIT_EXPECT_EQ(test, new->cap_effective.val, 0);
	KUNIT_EXPECT_TRUE(test, uid_eq(new->uid, current_uid()));
	abort_creds(new);
	EXPECT_LEVEL_DEFAULT(test);
}

static void committed_credentials_are_not_written(struct kunit *test)
{
	struct cred *cred = (struct cred *)current_cred();
	kuid_t before = cred->suid;
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	violations = expect_refusal();
	cred_set(cred, suid, KUIDT_INIT(4321));
	was_refused(test, violations, 1);
	KUNIT_EXPECT_TRUE(test, uid_eq(cred->suid, before));
}

static void ordinary_memory_is_not_written(struct kunit *test)
{
	struct cred *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	struct cred *new = prepared(test);
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	violations = expect_refusal();
	cred_set(fake, uid, KUIDT_INIT(1));
	kpkeys_cred_copy(fake, current_cred());
	kpkeys_cred_store(new, sizeof(*new) - 4, &violations, 8);
	kpkeys_cred_store(new, sizeof(*new), &violations, 1);
	was_refused(test, violations, 4);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(fake, 0, sizeof(*fake)), NULL);
	abort_creds(new);
}

/* === Another task ======================================================= */

struct other {
	struct task_struct *task;
	struct completion ready, leave;
	struct cred *prepared;
	bool adopts;
};

/* Prepares credentials, and waits. */
static int be_another(void *data)
{
	struct other *other = data;

	other->prepared = other->adopts ? cred_alloc_blank() : prepare_creds();
	complete(&other->ready);
	wait_for_completion(&other->leave);
	return 0;
}

static void start_another(struct kunit *test, struct other *other)
{
	init_completion(&other->ready);
	init_completion(&other->leave);
	other->task = kthread_run(be_another, other, "kpkeys_other");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, other->task);
	get_task_struct(other->task);
	wait_for_completion(&other->ready);
	KUNIT_ASSERT_NOT_NULL(test, other->prepared);
}

static void end_another(struct other *other)
{
	complete(&other->leave);
	kthread_stop_put(other->task);
}

static void only_the_builder_writes(struct kunit *test)
{
	struct other other = { };
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	start_another(test, &other);
	violations = expect_refusal();
	cred_set(other.prepared, euid, KUIDT_INIT(1));
	KUNIT_EXPECT_FALSE(test, kpkeys_cred_commit(other.prepared));
	KUNIT_EXPECT_FALSE(test, kpkeys_cred_give(other.task, other.prepared));
	/* They are of a user already. */
	kpkeys_cred_adopt(other.prepared);
	was_refused(test, violations, 4);
	KUNIT_EXPECT_TRUE(test, uid_eq(other.prepared->euid, GLOBAL_ROOT_UID));
	abort_creds(other.prepared);
	end_another(&other);
}

static void blank_credentials_are_adopted(struct kunit *test)
{
	struct other other = { .adopts = true };

	skip_unless_credentials_are_protected(test);

	start_another(test, &other);
	kpkeys_cred_adopt(other.prepared);
	cred_set(other.prepared, euid, KUIDT_INIT(7));
	KUNIT_EXPECT_TRUE(test, uid_eq(other.prepared->euid, KUIDT_INIT(7)));
	cred_set(other.prepared, user_ns, get_user_ns(&init_user_ns));
	cred_set(other.prepared, user, get_uid(current_user()));
	abort_creds(other.prepared);
	end_another(&other);
}

/* As Landlock does. */
static void shared_credentials_are_committed(struct kunit *test)
{
	const struct cred *before = get_current_cred();
	struct cred *new = prepared(test), *back = prepared(test);
	struct other other = { };
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	start_another(test, &other);
	violations = expect_refusal();
	kpkeys_cred_share(other.prepared);
	was_refused(test, violations, 1);

	kpkeys_cred_share(new);
	cred_set(back, suid, KUIDT_INIT(0));
	get_cred(new);
	commit_creds(new);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), new);
	/* Not any more: they are not what they were shared with. */
	violations = expect_refusal();
	KUNIT_EXPECT_FALSE(test, kpkeys_cred_commit(new));
	was_refused(test, violations, 1);
	commit_creds(back);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), back);
	put_cred(new);
	put_cred(before);
	abort_creds(other.prepared);
	end_another(&other);
}

/* === Pointers =========================================================== */

static void pointer_to_credentials_is_no_matter(struct kunit *test)
{
	const struct cred *cred = current_cred(), *asked;
	const struct cred __rcu *saved = current->cred;
	struct other other = { };
	unsigned long violations;

	start_another(test, &other);
	violations = expect_refusal();
	preempt_disable();
	current->cred = (const struct cred __rcu *)other.prepared;
	asked = current_cred();
	current->cred = saved;
	preempt_enable();
	was_refused(test, violations, kpkeys_hardened_cred_enabled());
	KUNIT_EXPECT_PTR_EQ(test, asked,
			    kpkeys_hardened_cred_enabled() ? cred : other.prepared);
	abort_creds(other.prepared);
	end_another(&other);
}

static void pointer_of_another_task_is_no_matter(struct kunit *test)
{
	const struct cred __rcu *saved;
	const struct cred *cred, *asked;
	struct other other = { };

	start_another(test, &other);
	saved = other.task->real_cred;
	cred = get_task_cred(other.task);
	other.task->real_cred = (const struct cred __rcu *)other.prepared;
	scoped_guard(rcu)
		asked = __task_cred(other.task);
	other.task->real_cred = saved;
	KUNIT_EXPECT_PTR_EQ(test, asked,
			    kpkeys_hardened_cred_enabled() ? cred : other.prepared);
	put_cred(cred);
	abort_creds(other.prepared);
	end_another(&other);
}

/* The object that says who a task is, forged or another's. */
static void identity_is_not_exchanged(struct kunit *test)
{
	struct kpkeys_task *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	const struct cred *cred = current_cred(), *asked[4];
	struct kpkeys_task *mine = current->kpkeys_task;
	struct other other = { };
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	start_another(test, &other);
	fake->task = current;
	fake->cred = (const struct cred __rcu *)other.prepared;

	violations = expect_refusal();
	/* The scheduler asks as well. */
	preempt_disable();
	current->kpkeys_task = fake;
	asked[0] = current_cred();
	current->kpkeys_task = other.task->kpkeys_task;
	asked[1] = current_cred();
	current->kpkeys_task = (void *)mine + sizeof(void *);
	asked[2] = current_cred();
	current->kpkeys_task = NULL;
	asked[3] = current_real_cred();
	current->kpkeys_task = mine;
	preempt_enable();
	was_refused(test, violations, 4);
	KUNIT_EXPECT_PTR_EQ(test, asked[0], cred);
	KUNIT_EXPECT_PTR_EQ(test, asked[1], cred);
	KUNIT_EXPECT_PTR_EQ(test, asked[2], cred);
	KUNIT_EXPECT_PTR_EQ(test, asked[3], cred);
	abort_creds(other.prepared);
	end_another(&other);
}

/* === Overriding ========================================================= */

static void override_nests(struct kunit *test)
{
	const struct cred *cred = current_cred(), *outer, *inner;
	struct cred *first = prepared(test), *second = prepared(test);

	outer = override_creds(first);
	KUNIT_EXPECT_PTR_EQ(test, outer, cred);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), first);
	/* As overlayfs does. */
	cred_change_caps(first, cap_effective, cap_clear);
	inner = override_creds(second);
	KUNIT_EXPECT_PTR_EQ(test, inner, first);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), second);
	KUNIT_EXPECT_PTR_EQ(test, current_real_cred(), cred);
	KUNIT_EXPECT_PTR_EQ(test, revert_creds(inner), second);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), first);
	KUNIT_EXPECT_PTR_EQ(test, revert_creds(outer), first);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), cred);

	/* As nfsd does: back to what the task has, from any depth. */
	override_creds(first);
	override_creds(second);
	revert_creds(current_real_cred());
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), cred);
	put_cred(first);
	put_cred(second);
	EXPECT_LEVEL_DEFAULT(test);
}

/* The pointer to go back to is on a stack while the task sleeps. */
static void reverting_goes_back(struct kunit *test)
{
	const struct cred *cred = current_cred();
	struct cred *first = prepared(test), *second = prepared(test);
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	override_creds(first);
	violations = expect_refusal();
	KUNIT_EXPECT_PTR_EQ(test, revert_creds(second), first);
	was_refused(test, violations, 1);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), first);
	/* Not while they are overridden. */
	violations = expect_refusal();
	KUNIT_EXPECT_FALSE(test, kpkeys_cred_commit(second));
	was_refused(test, violations, 1);
	revert_creds(cred);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), cred);
	put_cred(first);
	put_cred(second);
}

static void only_credentials_override(struct kunit *test)
{
	struct cred *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	const struct cred *cred = current_cred();
	unsigned long violations;
	int depth;

	skip_unless_credentials_are_protected(test);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	violations = expect_refusal();
	override_creds(fake);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), cred);
	/* Within credentials. */
	override_creds((const struct cred *)&cred->uid);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), cred);
	/* An object of another type. */
	override_creds((const struct cred *)current->kpkeys_task);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), cred);
	was_refused(test, violations, 3);

	for (depth = 0; depth < KPKEYS_CRED_DEPTH; depth++)
		override_creds(kernel_cred());
	violations = expect_refusal();
	override_creds(cred);
	was_refused(test, violations, 1);
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), kernel_cred());
	revert_creds(cred);
}

/* === References ========================================================= */

/* The count is ordinary memory, and says that nobody has them. */
static void credentials_in_use_are_not_freed(struct kunit *test)
{
	struct cred *new = prepared(test);
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	override_creds(new);
	cred_ref(new)->non_rcu = 1;
	violations = expect_refusal();
	put_cred(new);
	was_refused(test, violations, 1);
	KUNIT_EXPECT_PTR_EQ(test, kpkeys_cred_of(new), container_of(new, struct kpkeys_cred, cred));
	KUNIT_EXPECT_PTR_EQ(test, current_cred(), new);
	/* RCU may be said to have waited already. */
	violations = expect_refusal();
	KUNIT_EXPECT_FALSE(test, kpkeys_cred_retire(new, &cred_ref(new)->rcu));
	was_refused(test, violations, 1);
	KUNIT_EXPECT_NE(test, kpkeys_cred_of(new)->state, KPKEYS_CRED_DEAD);
	/* A reference that was forged away is back. */
	atomic_long_set(&cred_ref(new)->usage, 1);
	revert_creds(current_real_cred());
	cred_ref(new)->non_rcu = 1;
	put_cred(new);
	KUNIT_EXPECT_NULL(test, kpkeys_cred_of(new));
}

static int override_twice(void *data)
{
	struct cred *const *creds = data;

	override_creds(creds[0]);
	/* The end of the task puts this one. */
	override_creds(get_cred(creds[1]));
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void tasks_that_end_leave_none_in_use(struct kunit *test)
{
	struct task_struct *task;
	struct cred *creds[2];
	unsigned int i, tries;
	const atomic_t *pins;

	skip_unless_credentials_are_protected(test);

	for (i = 0; i < ARRAY_SIZE(creds); i++)
		creds[i] = prepared(test);
	task = kthread_run(override_twice, creds, "kpkeys_overrider");
	KUNIT_ASSERT_FALSE(test, IS_ERR(task));
	get_task_struct(task);
	while (kpkeys_task_of(task)->nr_overridden < 2)
		schedule_timeout_uninterruptible(1);
	for (i = 0; i < ARRAY_SIZE(creds); i++)
		KUNIT_EXPECT_GT(test, atomic_read(&kpkeys_cred_of(creds[i])->pins), 0);
	kthread_stop_put(task);

	/* RCU frees the task. */
	for (i = 0; i < ARRAY_SIZE(creds); i++) {
		pins = &kpkeys_cred_of(creds[i])->pins;
		for (tries = 0; tries < 100 && atomic_read(pins); tries++)
			schedule_timeout_uninterruptible(HZ / 20);
		KUNIT_EXPECT_EQ(test, atomic_read(pins), 0);
		abort_creds(creds[i]);
	}
}

/* The rcu_head that RCU calls back with names other credentials. */
static void references_free_their_own_credentials(struct kunit *test)
{
	struct cred *victim = prepared(test), *new = prepared(test);
	unsigned long violations;

	skip_unless_credentials_are_protected(test);

	cred_ref(new)->non_rcu = 1;
	cred_ref(new)->cred = victim;
	atomic_long_set(&cred_ref(victim)->usage, 0);
	violations = expect_refusal();
	put_cred(new);
	was_refused(test, violations, 1);
	KUNIT_EXPECT_NOT_NULL(test, kpkeys_cred_of(victim));

	cred_ref(new)->cred = new;
	atomic_long_set(&cred_ref(new)->usage, 1);
	atomic_long_set(&cred_ref(victim)->usage, 1);
	abort_creds(new);
	abort_creds(victim);
}

/* === Objects ============================================================ */

#define OBJECTS	(4 * PAGE_SIZE / 64)

static void objects_are_found(struct kunit *test)
{
	struct kpkeys_cred **mine = kunit_kcalloc(test, OBJECTS, sizeof(*mine), GFP_KERNEL);
	unsigned long violations;
	unsigned int i;

	skip_unless_credentials_are_protected(test);

	KUNIT_ASSERT_NOT_NULL(test, mine);
	for (i = 0; i < OBJECTS; i++) {
		mine[i] = kpkeys_object_alloc(KPKEYS_OBJECT_CRED);
		KUNIT_ASSERT_NOT_NULL(test, mine[i]);
		KUNIT_ASSERT_PTR_EQ(test, memchr_inv(mine[i], 0, sizeof(*mine[i])), NULL);
		KUNIT_ASSERT_TRUE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED, mine[i]));
		KUNIT_ASSERT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_TASK, mine[i]));
		KUNIT_ASSERT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED, (void *)mine[i] + 8));
		KUNIT_ASSERT_EQ(test, probe_write(mine[i]), -EFAULT);
	}
	for (i = 0; i < OBJECTS; i++) {
		kpkeys_object_free(KPKEYS_OBJECT_CRED, mine[i]);
		KUNIT_ASSERT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED, mine[i]));
	}
	violations = expect_refusal();
	kpkeys_object_free(KPKEYS_OBJECT_CRED, mine[0]);
	was_refused(test, violations, 1);

	/* The header of a page is no object, and ordinary memory has none. */
	KUNIT_EXPECT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED,
						  PTR_ALIGN_DOWN(mine[0], PAGE_SIZE)));
	KUNIT_EXPECT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED, test));
	KUNIT_EXPECT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED, NULL));
	KUNIT_EXPECT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_TASK, (void *)~0UL));
	KUNIT_EXPECT_FALSE(test, kpkeys_object_is(KPKEYS_OBJECT_CRED, current->kpkeys_task));
	KUNIT_EXPECT_PTR_EQ(test,
			    kpkeys_object_search(KPKEYS_OBJECT_TASK, 0, (unsigned long)current),
			    (void *)current->kpkeys_task);
	KUNIT_EXPECT_NULL(test, kpkeys_object_search(KPKEYS_OBJECT_TASK, 0, (unsigned long)test));
}

/* Enough to fill the first block, which has other users. */
#define MANY_OBJECTS	(KPKEYS_FIRST_OBJECTS_SIZE / 64)

/* Often enough for tasks that come and go beside the test. */
#define TIMES_UNTIL_FAR	16

/* No memory but single pages, in which somebody has left something. */
static struct page *no_whole_block(int nid, gfp_t gfp, unsigned int order)
{
	struct page *page = order ? NULL : alloc_pages_node(nid, gfp, 0);

	if (page)
		memset(page_address(page), 0x5a, PAGE_SIZE);
	return page;
}

static bool lies_far(const void *object)
{
	return (unsigned long)object - kpkeys_first_objects >= KPKEYS_FIRST_OBJECTS_SIZE;
}

/* Returns how many objects it took until one lay outside of the first block. */
static unsigned int take_until_far(struct kunit *test, enum kpkeys_object_type type,
				   void **taken)
{
	unsigned int i;

	for (i = 0; i < MANY_OBJECTS; i++) {
		taken[i] = kpkeys_object_alloc(type);
		KUNIT_ASSERT_NOT_NULL(test, taken[i]);
		if (lies_far(taken[i]))
			break;
	}
	KUNIT_ASSERT_LT(test, i, MANY_OBJECTS);
	return i + 1;
}

static void give_back(enum kpkeys_object_type type, void **taken, unsigned int nr)
{
	while (nr)
		kpkeys_object_free(type, taken[--nr]);
}

static void objects_lie_in_more_blocks(struct kunit *test)
{
	void **creds, **tasks, **more;
	unsigned int nr_creds = 0, nr_tasks = 0, i;
	struct other other = { };
	bool far;

	skip_unless_credentials_are_protected(test);

	creds = kvmalloc_array(MANY_OBJECTS + TIMES_UNTIL_FAR, sizeof(*creds), GFP_KERNEL);
	tasks = kvmalloc_array(MANY_OBJECTS + TIMES_UNTIL_FAR, sizeof(*tasks), GFP_KERNEL);
	more = kunit_kcalloc(test, OBJECTS, sizeof(*more), GFP_KERNEL);
	KUNIT_ASSERT_TRUE(test, creds && tasks && more);

	/*
	 * A task that lies there is somebody, and has credentials. Objects
	 * that another task frees meanwhile, at any time, are nearer: take
	 * these as well, and start the next task.
	 */
	for (i = 0; i < TIMES_UNTIL_FAR; i++) {
		/* The third callback of a task that ended frees its credentials. */
		rcu_barrier();
		rcu_barrier();
		rcu_barrier();
		kunit_activate_static_stub(test, kpkeys_pool_get_pages, no_whole_block);
		nr_creds += take_until_far(test, KPKEYS_OBJECT_CRED, creds + nr_creds);
		nr_tasks += take_until_far(test, KPKEYS_OBJECT_TASK, tasks + nr_tasks);
		kunit_deactivate_static_stub(test, kpkeys_pool_get_pages);
		start_another(test, &other);
		far = lies_far(other.task->kpkeys_task) && lies_far(other.prepared);
		if (far)
			break;
		abort_creds(other.prepared);
		end_another(&other);
	}
	KUNIT_ASSERT_TRUE(test, far);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(creds[nr_creds - 1], 0,
					     sizeof(struct kpkeys_cred)), NULL);
	KUNIT_EXPECT_EQ(test, probe_write(creds[nr_creds - 1]), -EFAULT);
	scoped_guard(rcu)
		KUNIT_EXPECT_PTR_EQ(test, __task_cred(other.task),
				    rcu_access_pointer(other.task->real_cred));
	abort_creds(other.prepared);
	end_another(&other);

	/* Now in a whole block, which single pages were no substitute for. */
	for (i = 0; i < OBJECTS; i++) {
		more[i] = kpkeys_object_alloc(KPKEYS_OBJECT_CRED);
		KUNIT_ASSERT_NOT_NULL(test, more[i]);
		KUNIT_ASSERT_EQ(test, probe_write(more[i]), -EFAULT);
	}
	give_back(KPKEYS_OBJECT_CRED, more, OBJECTS);
	give_back(KPKEYS_OBJECT_CRED, creds, nr_creds);
	give_back(KPKEYS_OBJECT_TASK, tasks, nr_tasks);
	kvfree(creds);
	kvfree(tasks);
}

static struct kunit_case cred_cases[] = {
	KUNIT_CASE(credentials_are_protected),
	KUNIT_CASE(levels_write_only_what_is_theirs),
	KUNIT_CASE(prepared_credentials_are_written),
	KUNIT_CASE(committed_credentials_are_not_written),
	KUNIT_CASE(ordinary_memory_is_not_written),
	KUNIT_CASE(only_the_builder_writes),
	KUNIT_CASE(blank_credentials_are_adopted),
	KUNIT_CASE(shared_credentials_are_committed),
	KUNIT_CASE(pointer_to_credentials_is_no_matter),
	KUNIT_CASE(pointer_of_another_task_is_no_matter),
	KUNIT_CASE(identity_is_not_exchanged),
	KUNIT_CASE(override_nests),
	KUNIT_CASE(reverting_goes_back),
	KUNIT_CASE(only_credentials_override),
	KUNIT_CASE(credentials_in_use_are_not_freed),
	KUNIT_CASE(tasks_that_end_leave_none_in_use),
	KUNIT_CASE(references_free_their_own_credentials),
	KUNIT_CASE(objects_are_found),
	KUNIT_CASE(objects_lie_in_more_blocks),
	{}
};

static struct kunit_suite cred_suite = {
	.name = "kpkeys_cred",
	.test_cases = cred_cases,
};

kunit_test_suite(cred_suite);
