// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers of another process: changed by a tracer that then lets it go on, or
 * goes away. The process looks at its register between system calls.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stress.h"

/* In the register at first. No tracer puts this value there. */
#define BEFORE		200
#define MOST		100

enum end { CONTINUE, DETACH, DIE, ENDS };

static enum start start_ptrace(void)
{
	/* A pointer that is wrong, in a kernel that has the system call. */
	return ptrace(PTRACE_PEEKDATA, 0, 0, 0) && errno == ENOSYS ? LEFT_OUT : READY;
}

#ifdef __x86_64__
static int wait_for_change(void)
{
	unsigned long now;

	asm volatile("mov %1, %%rbx\n"
		     "1: mov $24, %%eax\n"	/* sched_yield */
		     "syscall\n"
		     "cmp %1, %%rbx\n"
		     "je 1b\n"
		     "mov %%rbx, %0\n"
		     : "=r" (now) : "i" (BEFORE) : "rax", "rbx", "rcx", "r11", "memory");
	return now;
}

#define REGISTER(from)	((from)->rbx)
#else
static int wait_for_change(void)
{
	unsigned long now;

	asm volatile("mov x19, %1\n"
		     "1: mov x8, #124\n"	/* sched_yield */
		     "svc #0\n"
		     "cmp x19, %1\n"
		     "b.eq 1b\n"
		     "mov %0, x19\n"
		     : "=r" (now) : "i" (BEFORE) : "x0", "x8", "x19", "cc", "memory");
	return now;
}

#define REGISTER(from)	((from)->regs[19])
#endif

static bool get_registers(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec io = { regs, sizeof(*regs) };

	return need(!ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io));
}

static bool set_registers(pid_t pid, struct user_regs_struct *regs)
{
	struct iovec io = { regs, sizeof(*regs) };

	return need(!ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &io));
}

static bool has_stopped(pid_t pid)
{
	int status;

	return check(waitpid(pid, &status, 0) == pid) && check(WIFSTOPPED(status));
}

static bool stop(pid_t pid)
{
	return check(!ptrace(PTRACE_INTERRUPT, pid, 0, 0)) && has_stopped(pid);
}

/* A flag in the registers, which the kernel sets and clears. */
static bool step(pid_t pid)
{
	return check(!ptrace(PTRACE_SINGLESTEP, pid, 0, 0)) && has_stopped(pid);
}

static bool trace(pid_t pid, unsigned long value, enum end end)
{
	struct user_regs_struct regs;

	if (!need(!ptrace(PTRACE_SEIZE, pid, 0, 0)) || !stop(pid) ||
	    !get_registers(pid, &regs))
		return false;
	/* Perhaps it has not begun to look yet. */
	while (REGISTER(&regs) != BEFORE)
		if (!check(!ptrace(PTRACE_CONT, pid, 0, 0)) || !stop(pid) ||
		    !get_registers(pid, &regs))
			return false;
	REGISTER(&regs) = value;
	/* A tracer that dies leaves the flag there, and the next step is a signal. */
	if (!set_registers(pid, &regs) || (end != DIE && rnd(2) && !step(pid)))
		return false;
	switch (end) {
	case CONTINUE:
		return check(!ptrace(PTRACE_CONT, pid, 0, 0));
	case DETACH:
		return check(!ptrace(PTRACE_DETACH, pid, 0, 0));
	default:
		return true;
	}
}

static bool op_ptrace(void)
{
	int value = 1 + rnd(MOST);
	enum end end = rnd(ENDS);
	pid_t pid = fork(), tracer;

	if (!pid)
		_exit(wait_for_change());
	if (!need(pid > 0))
		return false;
	tracer = fork();
	if (!tracer)
		_exit(child_status(trace(pid, value, end), 0));
	if (!ended_with(tracer, 0)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return false;
	}
	return ended_with(pid, value);
}

const struct op ptrace_op = {
	.name = "ptrace",
	.run = op_ptrace,
	.start = start_ptrace,
};
