/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations shared by the operations of stress. */
#ifndef GUEST_STRESS_H
#define GUEST_STRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "compiler.h"
#include "files.h"

#define KB		1024UL
#define MB		(1024 * KB)
#define GB		(1024 * MB)

enum start {
	BROKEN,		/* there, but it cannot be made ready; it has said why */
	LEFT_OUT,	/* nothing that this machine has */
	READY,
};

/*
 * @start, if there is one, is called once, before the workers; @end after
 * them. Both may be NULL.
 */
struct op {
	const char *name;
	bool (*run)(void);
	enum start (*start)(void);
	bool (*end)(void);
};

extern const struct op huge_op, collapse_op, swap_op, ldt_op, module_op, cpu_op, cred_op,
	ptrace_op, key_op;

extern size_t page;

/* Memory may be refused. */
extern bool scarce;

/*
 * The current operation was refused memory; it found something wrong; or all
 * was well, but the event that it is about did not happen this time.
 */
extern bool refused, wrong, missed;

/* Report what went wrong; the operation returns false and is counted. */
#define check(condition) check_at((condition), #condition, __func__, __LINE__)
/* The same for a system call that takes memory and sets errno. */
#define need(condition)	need_at((condition), #condition, __func__, __LINE__)

bool check_at(bool ok, const char *condition, const char *func, int line);
bool need_at(bool ok, const char *condition, const char *func, int line);
bool means_refused(int err);

u64 rnd(u64 limit);
void *map(size_t length, int flags);
bool unmap(void *m, size_t length);
void fill(char *m, size_t pages, u64 seed);
bool filled(const char *m, size_t pages, u64 seed);
bool ended_with(pid_t pid, int status);
int child_status(bool ok, int status);
bool write_faults(char *where);

/* Whether this is a guest of ours, that has memory enough to recover. */
bool may_change_machine(void);

/* Only one worker at a time is between these; returns a handle, or -1. */
int enter_alone(const char *path);
void leave_alone(int handle);

#endif /* GUEST_STRESS_H */
