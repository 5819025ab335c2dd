// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access a page under each encoding of its key in POR_EL0, reserved ones as well.
 *
 * An access that the encoding does not permit must end in SIGSEGV, for the
 * key, and others must succeed. A kernel that takes the fault for a spurious
 * one repeats the access for ever, which a timer ends.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "por.h"

#ifndef SEGV_PKUERR
#define SEGV_PKUERR	4
#endif

#define ENCODINGS	16
/* Emulated machines are slow, but not that slow. */
#define PATIENCE_S	5
#define RET		0xd65f03c0u

static const struct access {
	const char *name;
	int permission;
} accesses[] = {
	{ "read", POR_READ }, { "write", POR_WRITE }, { "execute", POR_EXECUTE },
};

enum { SUCCEEDED, KEY_FAULT, OTHER_FAULT, ENDLESS };

static const char *const outcomes[] = {
	"succeeded", "ended in SIGSEGV for the key", "ended in another SIGSEGV",
	"never ended",
};

static sigjmp_buf after;

/* Signal handlers start with all permissions for all keys of their own. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	siglongjmp(after, info->si_code == SEGV_PKUERR ? KEY_FAULT : OTHER_FAULT);
}

static void on_timer(int signal)
{
	(void)signal;
	siglongjmp(after, ENDLESS);
}

static void touch(volatile unsigned int *page, int permission)
{
	if (permission == POR_READ)
		(void)*page;
	else if (permission == POR_WRITE)
		*page = RET;
	else
		((void (*)(void))page)();
}

static int try(void *page, int key, int encoding, int permission)
{
	struct itimerval timer = { .it_value.tv_sec = PATIENCE_S };
	int outcome = sigsetjmp(after, 1);

	if (!outcome) {
		setitimer(ITIMER_REAL, &timer, NULL);
		por_write(POR_INITIAL | POR_FIELD(key, encoding));
		touch(page, permission);
	}
	por_write(POR_INITIAL);
	timer.it_value.tv_sec = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	return outcome;
}

int main(void)
{
	struct sigaction fault = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
	struct sigaction timer = { .sa_handler = on_timer };
	int all = PROT_READ | PROT_WRITE | PROT_EXEC;
	int key, encoding, tried = 0, wrong = 0;
	unsigned int *page;
	size_t i;

	if (!por_exists()) {
		printf("@overlays: this CPU has none\n");
		return 0;
	}
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGALRM, &timer, NULL);
	page = mmap(NULL, getpagesize(), all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) {
		perror("overlays: mmap");
		return 2;
	}
	*page = RET;
	__builtin___clear_cache((char *)page, (char *)(page + 1));
	key = syscall(SYS_pkey_alloc, 0, 0);
	if (key < 0 || syscall(SYS_pkey_mprotect, page, getpagesize(), all, key)) {
		perror("overlays: no key for a page");
		return 2;
	}

	for (encoding = 0; encoding < ENCODINGS; encoding++) {
		for (i = 0; i < ARRAY_SIZE(accesses); i++) {
			int permission = accesses[i].permission;
			/* Reserved encodings permit nothing. */
			bool permitted = encoding < 8 && (encoding & permission);
			int outcome = try(page, key, encoding, permission);

			tried++;
			if (outcome == (permitted ? SUCCEEDED : KEY_FAULT))
				continue;
			wrong++;
			printf("overlays: encoding %d: %s %s\n", encoding,
			       accesses[i].name, outcomes[outcome]);
		}
	}
	printf("@overlays: accesses=%d wrong=%d\n", tried, wrong);
	return wrong != 0;
}
