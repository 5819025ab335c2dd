// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hardened credentials: who writes them, and which task has which.
 *
 * The task that prepares credentials writes to them until it commits them, and
 * nobody afterwards. They are given to a task under the level of credentials,
 * and are not freed while a task has them, whatever their count of references
 * says. That count, and what RCU needs, is in struct cred_ref: each open file
 * takes a reference.
 */
#define pr_fmt(fmt) "kpkeys: " fmt

#include <linux/cred.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_cred.h>
#include <linux/kpkeys_state.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "cred.h"
#include "kpkeys.h"
#include "objects.h"

DEFINE_STATIC_KEY_FALSE_RO(kpkeys_hardened_cred_key);
/* Modules ask for credentials, too. */
EXPORT_SYMBOL(kpkeys_hardened_cred_key);

/* Older than the objects, in the image, and never freed. */
static const struct cred *init_cred __ro_after_init;

#define kpkeys_cred_refused(fmt, ...) do {				\
	kpkeys_violation_refused(fmt, ##__VA_ARGS__);			\
	kpkeys_violation_kill();					\
} while (0)

/* === From a pointer to credentials ====================================== */

/**
 * kpkeys_cred_of() - Find the object of credentials.
 * @cred: any pointer, from ordinary memory.
 *
 * Context: any.
 * Return: NULL if it does not point to credentials that were allocated.
 */
struct kpkeys_cred *kpkeys_cred_of(const struct cred *cred)
{
	struct kpkeys_cred *object = container_of(cred, struct kpkeys_cred, cred);

	return kpkeys_object_is(KPKEYS_OBJECT_CRED, object) ? object : NULL;
}

static bool kpkeys_cred_is_mine(const struct kpkeys_cred *object)
{
	return object && object->state == KPKEYS_CRED_PREPARED &&
	       object->builder == current;
}

static bool kpkeys_cred_may_write(const struct kpkeys_cred *object)
{
	return kpkeys_cred_is_mine(object) ||
	       (object && object->state == KPKEYS_CRED_DEAD);
}

/* The level is raised. The first credentials have no object. */
static void kpkeys_cred_pin(struct kpkeys_cred *object, int nr)
{
	if (object)
		atomic_add(nr, &object->pins);
}

static void kpkeys_cred_unpin(const struct cred *cred)
{
	kpkeys_cred_pin(kpkeys_cred_of(cred), -1);
}

/* May a task have them that was not given them by their builder? */
static bool kpkeys_cred_is_usable(const struct cred *cred,
				  const struct kpkeys_cred *object)
{
	return cred == init_cred || (object && object->state != KPKEYS_CRED_DEAD);
}

/* === Preparing ========================================================== */

/**
 * kpkeys_cred_alloc() - Allocate credentials, to be prepared by the current task.
 * @jar: where to get them if they are not hardened.
 * @gfp: allocation flags; without __GFP_ZERO, kpkeys_cred_copy() must follow.
 *
 * Context: may sleep.
 * Return: the credentials or NULL.
 */
struct cred *kpkeys_cred_alloc(struct kmem_cache *jar, gfp_t gfp)
{
	struct cred_ref *ref = kzalloc_obj(*ref, gfp | __GFP_ACCOUNT);
	struct kpkeys_cred *object;
	struct cred *cred;

	if (!ref)
		return NULL;
	if (!kpkeys_hardened_cred_enabled()) {
		cred = kmem_cache_alloc(jar, gfp);
		if (!cred)
			goto err;
		cred->ref = ref;
		ref->cred = cred;
		return cred;
	}

	object = kpkeys_object_alloc(KPKEYS_OBJECT_CRED);
	if (!object)
		goto err;
	ref->cred = &object->cred;
	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_CRED);
		object->cred.ref = ref;
		object->builder = current;
		object->state = KPKEYS_CRED_PREPARED;
		kpkeys_lower();
	}
	return &object->cred;

err:
	kfree(ref);
	return NULL;
}

/**
 * kpkeys_cred_free() - Free credentials.
 * @jar: where they are from if they are not hardened.
 * @cred: the credentials, which kpkeys_cred_retire() has retired.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_cred_free(struct kmem_cache *jar, struct cred *cred)
{
	struct cred_ref *ref = cred->ref;

	if (kpkeys_hardened_cred_enabled())
		kpkeys_object_free(KPKEYS_OBJECT_CRED,
				   container_of(cred, struct kpkeys_cred, cred));
	else
		kmem_cache_free(jar, cred);
	kfree(ref);
}

/**
 * kpkeys_cred_copy() - Copy other credentials to those that are being prepared.
 * @cred: the new ones.
 * @from: the others.
 *
 * Context: process context.
 */
void kpkeys_cred_copy(struct cred *cred, const struct cred *from)
{
	struct cred_ref *ref = cred->ref;

	if (!kpkeys_hardened_cred_enabled()) {
		memcpy(cred, from, sizeof(*cred));
		cred->ref = ref;
		return;
	}
	if (!kpkeys_cred_may_write(kpkeys_cred_of(cred))) {
		kpkeys_cred_refused("copy to credentials at 0x%lx", (unsigned long)cred);
		return;
	}
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	memcpy(cred, from, sizeof(*cred));
	cred->ref = ref;
	kpkeys_lower();
}

/**
 * kpkeys_cred_store() - Write to credentials that are being prepared.
 * @cred: the credentials.
 * @offset: where in struct cred.
 * @value: what to write, in ordinary memory.
 * @size: number of bytes.
 *
 * See cred_set().
 *
 * Context: any but NMIs.
 */
void kpkeys_cred_store(struct cred *cred, size_t offset, const void *value,
		       size_t size)
{
	void *member = (void *)cred + offset;

	/* Security modules give the first credentials a blob. */
	if (system_state < SYSTEM_SCHEDULING &&
	    (cred == init_cred || kpkeys_is_state(cred, sizeof(*cred)))) {
		kpkeys_state_copy(member, value, size);
		return;
	}
	if (!kpkeys_hardened_cred_enabled()) {
		memcpy(member, value, size);
		return;
	}
	if (!kpkeys_cred_may_write(kpkeys_cred_of(cred)) ||
	    offset >= sizeof(*cred) || size > sizeof(*cred) - offset) {
		kpkeys_cred_refused("write to credentials at 0x%lx", (unsigned long)member);
		return;
	}
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	kpkeys_store(member, value, size);
	kpkeys_lower();
}
EXPORT_SYMBOL(kpkeys_cred_store);

/**
 * kpkeys_cred_adopt() - Go on to prepare what another task began.
 * @cred: the credentials. They are of no user yet, and so of no use to anybody.
 *
 * Context: process context.
 */
void kpkeys_cred_adopt(struct cred *cred)
{
	struct kpkeys_cred *object;

	if (!kpkeys_hardened_cred_enabled())
		return;
	object = kpkeys_cred_of(cred);
	if (!object || object->state != KPKEYS_CRED_PREPARED || cred->user_ns) {
		kpkeys_cred_refused("adoption of credentials at 0x%lx", (unsigned long)cred);
		return;
	}
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	object->builder = current;
	kpkeys_lower();
}

/**
 * kpkeys_cred_share() - Let other threads commit credentials as well.
 * @cred: what the current task has prepared. It gives nobody more than the
 *	current task has.
 *
 * For those only who have the same credentials as the current task.
 *
 * Context: process context.
 */
void kpkeys_cred_share(const struct cred *cred)
{
	struct kpkeys_cred *object;

	if (!kpkeys_hardened_cred_enabled())
		return;
	object = kpkeys_cred_of(cred);
	if (!kpkeys_cred_is_mine(object)) {
		kpkeys_cred_refused("credentials at 0x%lx shared", (unsigned long)cred);
		return;
	}
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	object->shared_with = rcu_access_pointer(kpkeys_task_of(current)->real_cred);
	kpkeys_lower();
}

/* === Giving and taking ================================================== */

/* Have a task on that stack have credentials, and nothing that it had before. */
static void kpkeys_cred_install(struct kpkeys_task *id, struct task_struct *task,
				unsigned long stack, const struct cred *cred,
				struct kpkeys_cred *object)
{
	/* Interrupts ask for credentials, too, and compare the two. */
	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	if (object)
		object->state = KPKEYS_CRED_COMMITTED;
	kpkeys_cred_pin(object, 2);
	kpkeys_cred_unpin(rcu_access_pointer(id->real_cred));
	kpkeys_cred_unpin(rcu_access_pointer(id->cred));
	id->stack = stack;
	rcu_assign_pointer(id->real_cred, cred);
	rcu_assign_pointer(id->cred, cred);
	kpkeys_lower();
	rcu_assign_pointer(task->real_cred, cred);
	rcu_assign_pointer(task->cred, cred);
}

/**
 * kpkeys_cred_give() - Give a new task its credentials.
 * @task: the task, which does not run yet.
 * @cred: those of the current task, or others that it has prepared.
 *
 * Context: process context.
 * Return: false if it may not have them.
 */
bool kpkeys_cred_give(struct task_struct *task, const struct cred *cred)
{
	struct kpkeys_cred *object;

	if (!kpkeys_hardened_cred_enabled())
		return true;
	object = kpkeys_cred_of(cred);
	if (!kpkeys_cred_is_mine(object) &&
	    cred != rcu_access_pointer(kpkeys_task_current()->cred)) {
		kpkeys_cred_refused("credentials at 0x%lx for a new task",
				    (unsigned long)cred);
		return false;
	}
	kpkeys_cred_install((struct kpkeys_task *)kpkeys_task_of(task), task,
			    (unsigned long)task_stack_page(task), cred, object);
	return true;
}

static bool kpkeys_cred_is_shared_with(const struct kpkeys_cred *object,
				       const struct kpkeys_task *id)
{
	return object && object->shared_with && object->state != KPKEYS_CRED_DEAD &&
	       object->shared_with == rcu_access_pointer(id->real_cred);
}

/**
 * kpkeys_cred_commit() - Give the current task credentials that it prepared.
 * @cred: the credentials.
 *
 * Context: process context.
 * Return: false if it may not have them.
 */
bool kpkeys_cred_commit(struct cred *cred)
{
	struct kpkeys_cred *object;
	struct kpkeys_task *id;

	if (!kpkeys_hardened_cred_enabled())
		return true;
	object = kpkeys_cred_of(cred);
	id = kpkeys_task_current();
	if (id->nr_overridden ||
	    !(kpkeys_cred_is_mine(object) || kpkeys_cred_is_shared_with(object, id))) {
		kpkeys_cred_refused("credentials at 0x%lx committed", (unsigned long)cred);
		return false;
	}
	kpkeys_cred_install(id, current, id->stack, cred, object);
	return true;
}

/**
 * kpkeys_cred_take() - Take the credentials of a task that has ended.
 * @task: the task.
 * @real_cred: receives its objective credentials.
 * @cred: receives its subjective ones.
 *
 * Both keep their values if credentials are not hardened.
 *
 * Context: any but hard interrupts and NMIs.
 */
void kpkeys_cred_take(struct task_struct *task, struct cred **real_cred,
		      struct cred **cred)
{
	struct kpkeys_task *id;

	if (!kpkeys_hardened_cred_enabled())
		return;
	id = (struct kpkeys_task *)kpkeys_task_of(task);
	*real_cred = (struct cred *)rcu_access_pointer(id->real_cred);
	*cred = (struct cred *)rcu_access_pointer(id->cred);

	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	kpkeys_cred_unpin(*real_cred);
	kpkeys_cred_unpin(*cred);
	while (id->nr_overridden)
		kpkeys_cred_unpin(id->overridden[--id->nr_overridden]);
	RCU_INIT_POINTER(id->real_cred, NULL);
	RCU_INIT_POINTER(id->cred, NULL);
	kpkeys_lower();
}

/**
 * kpkeys_cred_is_unused() - May the last reference to credentials be gone?
 * @cred: the credentials.
 *
 * Context: any but hard interrupts and NMIs.
 * Return: false if a task has them still: the count of references was forged.
 */
bool kpkeys_cred_is_unused(const struct cred *cred)
{
	struct kpkeys_cred *object;

	if (!kpkeys_hardened_cred_enabled())
		return true;
	object = kpkeys_cred_of(cred);
	if (object && !atomic_read(&object->pins))
		return true;
	kpkeys_cred_refused("last reference to credentials at 0x%lx, in use",
			    (unsigned long)cred);
	return false;
}

/**
 * kpkeys_cred_retire() - Have nobody use credentials any more.
 * @cred: the credentials, of which there are no references, it is said.
 * @rcu: the rcu_head that said so.
 *
 * Context: any but hard interrupts and NMIs.
 * Return: false if a task has them still, or their references were not theirs.
 */
bool kpkeys_cred_retire(const struct cred *cred, const struct rcu_head *rcu)
{
	struct kpkeys_cred *object;

	if (!kpkeys_hardened_cred_enabled())
		return true;
	object = kpkeys_cred_of(cred);
	if (object && &cred->ref->rcu == rcu && object->state != KPKEYS_CRED_DEAD) {
		int state = object->state;

		guard(irqsave)();
		kpkeys_raise(KPKEYS_LVL_CRED);
		object->state = KPKEYS_CRED_DEAD;
		/* Those who pin look at the state afterwards. */
		smp_mb();
		if (unlikely(atomic_read(&object->pins)))
			object->state = state;
		kpkeys_lower();
		if (likely(object->state == KPKEYS_CRED_DEAD))
			return true;
	}
	kpkeys_cred_refused("credentials at 0x%lx freed, but in use", (unsigned long)cred);
	return false;
}

/* === Overriding ========================================================= */

/**
 * kpkeys_cred_override() - As override_creds(), of hardened credentials.
 * @cred: the credentials.
 *
 * Which ones a subsystem overrides with is up to its own data, as long as they
 * are credentials.
 *
 * Context: process context.
 * Return: the subjective credentials before, which stay if this is refused.
 */
const struct cred *kpkeys_cred_override(const struct cred *cred)
{
	struct kpkeys_cred *object = kpkeys_cred_of(cred);
	struct kpkeys_task *id = kpkeys_task_current();
	const struct cred *old = rcu_dereference_protected(id->cred, 1);
	bool usable = id->nr_overridden < KPKEYS_CRED_DEPTH;

	if (usable) {
		guard(irqsave)();
		kpkeys_raise(KPKEYS_LVL_CRED);
		kpkeys_cred_pin(object, 1);
		/* As in kpkeys_cred_retire(), the other way round. */
		smp_mb();
		usable = kpkeys_cred_is_usable(cred, object);
		if (usable) {
			id->overridden[id->nr_overridden++] = old;
			rcu_assign_pointer(id->cred, cred);
		} else {
			kpkeys_cred_pin(object, -1);
		}
		kpkeys_lower();
		if (usable)
			rcu_assign_pointer(current->cred, cred);
	}
	if (!usable)
		kpkeys_cred_refused("credentials overridden with 0x%lx",
				    (unsigned long)cred);
	return old;
}
EXPORT_SYMBOL(kpkeys_cred_override);

/**
 * kpkeys_cred_revert() - As revert_creds(), of hardened credentials.
 * @cred: what the task had before it overrode them last, or its objective ones.
 *
 * Any other pointer was replaced on a stack meanwhile.
 *
 * Context: process context.
 * Return: the subjective credentials before, which stay if this is refused.
 */
const struct cred *kpkeys_cred_revert(const struct cred *cred)
{
	struct kpkeys_task *id = kpkeys_task_current();
	const struct cred *old = rcu_dereference_protected(id->cred, 1);
	unsigned long nr = id->nr_overridden;

	if (!(nr && id->overridden[nr - 1] == cred) &&
	    cred != rcu_access_pointer(id->real_cred)) {
		kpkeys_cred_refused("credentials reverted to 0x%lx", (unsigned long)cred);
		return old;
	}

	guard(irqsave)();
	kpkeys_raise(KPKEYS_LVL_CRED);
	kpkeys_cred_unpin(old);
	if (nr && id->overridden[nr - 1] == cred) {
		id->nr_overridden = nr - 1;
	} else {
		kpkeys_cred_pin(kpkeys_cred_of(cred), 1);
		while (id->nr_overridden)
			kpkeys_cred_unpin(id->overridden[--id->nr_overridden]);
	}
	rcu_assign_pointer(id->cred, cred);
	kpkeys_lower();
	rcu_assign_pointer(current->cred, cred);
	return old;
}
EXPORT_SYMBOL(kpkeys_cred_revert);

/* === Asking ============================================================= */

/**
 * __kpkeys_current_cred() - As kpkeys_current_cred(), with a closer look.
 *
 * Context: any.
 * Return: the subjective credentials of the current task.
 */
const struct cred *__kpkeys_current_cred(void)
{
	const struct kpkeys_task *id = kpkeys_task_here();
	const struct cred *cred = rcu_dereference_protected(id->cred, 1);

	/* An interrupt may come between the two. */
	if (in_task() && rcu_access_pointer(id->task->cred) != cred)
		kpkeys_cred_refused("credentials of the task replaced by 0x%lx",
				    (unsigned long)rcu_access_pointer(id->task->cred));
	return cred;
}
EXPORT_SYMBOL(__kpkeys_current_cred);

/* === Start ============================================================== */

kpkeys_boot_switch(enable, "kpkeys_hardened_cred");

/**
 * kpkeys_hardened_cred_init() - Start protecting credentials.
 *
 * Context: boot, one CPU, one task. Page tables are protected.
 */
void __init kpkeys_hardened_cred_init(void)
{
	struct kpkeys_task *id;
	int err;

	if (!enable) {
		pr_info("credentials not hardened: disabled by kpkeys_hardened_cred=off\n");
		return;
	}
	err = kpkeys_objects_init();
	if (err) {
		pr_err("credentials not hardened: no memory with a key: %pe\n", ERR_PTR(err));
		return;
	}

	static_branch_enable(&kpkeys_hardened_cred_key);
	init_cred = kernel_cred();
	id = kpkeys_task_alloc(current) ? NULL : current->kpkeys_task;
	if (!id)
		panic("kpkeys: no memory for the first task\n");
	scoped_guard(irqsave) {
		kpkeys_raise(KPKEYS_LVL_CRED);
		id->stack = (unsigned long)task_stack_page(current);
		RCU_INIT_POINTER(id->real_cred, init_cred);
		RCU_INIT_POINTER(id->cred, init_cred);
		kpkeys_lower();
	}
	pr_info("credentials hardened (pkey %d)\n", KPKEYS_PKEY_CRED);
	kpkeys_hardened_regs_init();
}
