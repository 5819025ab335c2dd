/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credentials in memory that an arbitrary write does not reach.
 *
 * They are written with cred_set() by the task that prepares them. Which ones a
 * task has is noted in its struct kpkeys_task; task->cred is a copy for those
 * who only look. See Documentation/security/kpkeys-cred.rst.
 */
#ifndef _LINUX_KPKEYS_CRED_H
#define _LINUX_KPKEYS_CRED_H

#include <linux/compiler.h>
#include <linux/kpkeys_task.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct cred;
struct kmem_cache;
struct rcu_head;

#ifdef CONFIG_KPKEYS_HARDENED_CRED

const struct cred *__kpkeys_current_cred(void);

/**
 * kpkeys_current_cred() - Get the subjective credentials of the current task.
 *
 * Context: any.
 * Return: what the task was given, whatever task->cred says.
 */
static __always_inline const struct cred *kpkeys_current_cred(void)
{
	const struct task_struct *task = current;
	const struct cred *cred = rcu_dereference_protected(task->cred, 1);
	const struct kpkeys_task *id;

	if (!kpkeys_hardened_cred_enabled())
		return cred;
	id = READ_ONCE(task->kpkeys_task);
	if (likely(kpkeys_task_is_near(id, task) && kpkeys_task_is_here(id) &&
		   rcu_access_pointer(id->cred) == cred))
		return cred;
	return __kpkeys_current_cred();
}

/* The same of the objective credentials of any task. A macro, for lockdep. */
#define kpkeys_task_cred(task)						\
	(kpkeys_hardened_cred_enabled() ?				\
		rcu_dereference(kpkeys_task_of(task)->real_cred) :	\
		rcu_dereference((task)->real_cred))

#define kpkeys_current_real_cred()					\
	(kpkeys_hardened_cred_enabled() ?				\
		rcu_dereference_protected(kpkeys_task_here()->real_cred, 1) : \
		rcu_dereference_protected(current->real_cred, 1))

struct cred *kpkeys_cred_alloc(struct kmem_cache *jar, gfp_t gfp);
void kpkeys_cred_free(struct kmem_cache *jar, struct cred *cred);
void kpkeys_cred_copy(struct cred *cred, const struct cred *from);
void kpkeys_cred_store(struct cred *cred, size_t offset, const void *value,
		       size_t size);
void kpkeys_cred_adopt(struct cred *cred);
void kpkeys_cred_share(const struct cred *cred);
bool kpkeys_cred_give(struct task_struct *task, const struct cred *cred);
bool kpkeys_cred_commit(struct cred *cred);
void kpkeys_cred_take(struct task_struct *task, struct cred **real_cred,
		      struct cred **cred);
bool kpkeys_cred_is_unused(const struct cred *cred);
bool kpkeys_cred_retire(const struct cred *cred, const struct rcu_head *rcu);
const struct cred *kpkeys_cred_override(const struct cred *cred);
const struct cred *kpkeys_cred_revert(const struct cred *cred);

/**
 * cred_set() - Write a member of credentials that are being prepared.
 * @_cred: the credentials, which the current task prepares and no task has yet.
 * @_member: the member.
 * @_value: its value.
 *
 * A write to any others is refused, and reported as a violation.
 *
 * Return: the value.
 */
#define cred_set(_cred, _member, _value)				\
	__cred_set(_cred, _member, _value, __UNIQUE_ID(cred_value))

/* Values may be of the same macro. */
#define __cred_set(_cred, _member, _value, _unique) ({			\
	typeof_member(struct cred, _member) _unique = (_value);		\
									\
	kpkeys_cred_store(_cred, offsetof(struct cred, _member),	\
			  (const void *)&_unique, sizeof(_unique));	\
	_unique;							\
})

/* Change a set of capabilities with one of the macros of <linux/capability.h>. */
#define cred_change_caps(_cred, _member, _change, ...) do {		\
	kernel_cap_t __caps = (_cred)->_member;				\
									\
	_change(__caps, ##__VA_ARGS__);					\
	cred_set(_cred, _member, __caps);				\
} while (0)

#define cred_alloc(_jar, _gfp)		kpkeys_cred_alloc(_jar, _gfp)
#define cred_free(_jar, _cred)		kpkeys_cred_free(_jar, _cred)
#define cred_copy(_cred, _from)		kpkeys_cred_copy(_cred, _from)

#else /* !CONFIG_KPKEYS_HARDENED_CRED */

#define kpkeys_current_cred()						\
	rcu_dereference_protected(current->cred, 1)
#define kpkeys_current_real_cred()					\
	rcu_dereference_protected(current->real_cred, 1)
#define kpkeys_task_cred(task)						\
	rcu_dereference((task)->real_cred)

static inline void kpkeys_cred_adopt(struct cred *cred) { }
static inline void kpkeys_cred_share(const struct cred *cred) { }

static inline bool kpkeys_cred_give(struct task_struct *task,
				    const struct cred *cred)
{
	return true;
}

static inline void kpkeys_cred_take(struct task_struct *task,
				    struct cred **real_cred, struct cred **cred)
{
}

/* Macros: GCC chooses other registers where a call was inlined, even of nothing. */
#define kpkeys_cred_commit(...)		true
#define kpkeys_cred_is_unused(...)	true
#define kpkeys_cred_retire(...)		true

static inline const struct cred *kpkeys_cred_override(const struct cred *cred)
{
	return NULL;
}

static inline const struct cred *kpkeys_cred_revert(const struct cred *cred)
{
	return NULL;
}

#define cred_set(_cred, _member, _value)	((_cred)->_member = (_value))
#define cred_change_caps(_cred, _member, _change, ...)			\
	_change((_cred)->_member, ##__VA_ARGS__)
#define cred_alloc(_jar, _gfp)		kmem_cache_alloc(_jar, _gfp)
#define cred_free(_jar, _cred)		kmem_cache_free(_jar, _cred)
#define cred_copy(_cred, _from)		memcpy(_cred, _from, sizeof(struct cred))

#endif /* CONFIG_KPKEYS_HARDENED_CRED */

#endif /* _LINUX_KPKEYS_CRED_H */
