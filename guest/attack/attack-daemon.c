// SPDX-License-Identifier: GPL-2.0-only
/*
 * The victim of attacks on another process: a daemon of root that has a secret
 * and does not give it to just anybody.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack-runner.h"

#define EXIT_GRANTED	42
#define EXIT_BROKEN	3

/* Answer, and end only when everybody has gone. */
static noreturn void answer(int request, int reply, const char *token,
			    bool granted)
{
	const char *text = granted ? token : "denied";
	char c;

	if (write(reply, text, strlen(text)) != (ssize_t)strlen(text))
		_exit(EXIT_BROKEN);
	while (read(request, &c, 1) > 0)
		;
	_exit(granted ? EXIT_GRANTED : 0);
}

static bool ready(int reply)
{
	return write(reply, "r", 1) == 1;
}

/*
 * Ask a page. It is read-only but for a moment while the request is counted:
 * a daemon that takes good care of its data.
 */
static noreturn void serve_by_page(struct daemon_policy *policy, int request,
				   int reply, const char *token)
{
	char c;

	/* Its own page from now on, for root only. */
	policy->reader_uid = 0;
	if (mprotect(policy, page_size(), PROT_READ) || !ready(reply))
		_exit(EXIT_BROKEN);
	if (read(request, &c, 1) != 1)
		_exit(0);	/* nobody ever asked */

	if (mprotect(policy, page_size(), PROT_READ | PROT_WRITE))
		_exit(EXIT_BROKEN);
	policy->requests++;
	if (mprotect(policy, page_size(), PROT_READ))
		_exit(EXIT_BROKEN);

	answer(request, reply, token,
	       policy->reader_uid == ATTACKER_UID);
}

/* Ask a register that the compiler keeps, or that we make it keep. */
static noreturn void serve_by_register(int request, int reply,
				       const char *token)
{
#ifdef __x86_64__
	register unsigned long reader_uid asm("r12") = DAEMON_DENIED;
	long ret = SYS_read;
	char c;

	if (!ready(reply))
		_exit(EXIT_BROKEN);
	asm volatile("syscall"
		     : "+a"(ret), "+r"(reader_uid)
		     : "D"((long)request), "S"(&c), "d"(1L)
		     : "rcx", "r11", "memory");
	if (ret != 1)
		_exit(0);
	answer(request, reply, token, reader_uid == ATTACKER_UID);
#elif defined(__aarch64__)
	register unsigned long reader_uid asm("x19") = DAEMON_DENIED;
	register long nr asm("x8"), ret asm("x0"), size asm("x2");
	register char *where asm("x1");
	char c;

	if (!ready(reply))
		_exit(EXIT_BROKEN);
	nr = SYS_read;
	ret = request;
	where = &c;
	size = 1;
	asm volatile("svc #0"
		     : "+r"(ret), "+r"(reader_uid)
		     : "r"(nr), "r"(where), "r"(size)
		     : "memory");
	if (ret != 1)
		_exit(0);
	answer(request, reply, token, reader_uid == ATTACKER_UID);
#else
#error "saved-reg: say where the daemon keeps its decision"
#endif
}

/*
 * Another program of the attacker's user, which keeps something from him, as an
 * agent does that has his keys.
 */
static void become_agent(void)
{
	if (setgroups(0, NULL) ||
	    setresgid(ATTACKER_UID, ATTACKER_UID, ATTACKER_UID) ||
	    setresuid(ATTACKER_UID, ATTACKER_UID, ATTACKER_UID) ||
	    prctl(PR_SET_DUMPABLE, 1) || prctl(PR_SET_PDEATHSIG, SIGKILL))
		_exit(EXIT_BROKEN);
}

/* Have a secret, and answer nobody. */
static noreturn void keep_secret(char *secret, int request, int reply,
				 const char *token)
{
	char c;

	memcpy(secret, token, TOKEN_LEN);
	if (!ready(reply))
		_exit(EXIT_BROKEN);
	while (read(request, &c, 1) > 0)
		;
	_exit(0);
}

/* Fork the daemon; the attacker's ends of the pipes and arguments are set. */
void daemon_start(struct prize *prize)
{
	struct daemon_policy *policy = map_pages(NULL, page_size());
	int request[2], reply[2];
	pid_t pid;
	char c;

	if (pipe2(request, O_CLOEXEC) || pipe2(reply, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(request[1]);
		close(reply[0]);
		if (prize->kind == PRIZE_DAEMON_REG)
			serve_by_register(request[0], reply[1], prize->token);
		if (prize->kind == PRIZE_AGENT)
			become_agent();
		if (prize->kind == PRIZE_AGENT ||
		    prize->kind == PRIZE_DAEMON_MEMORY)
			keep_secret((char *)policy, request[0], reply[1],
				    prize->token);
		serve_by_page(policy, request[0], reply[1], prize->token);
	}

	close(request[0]);
	close(reply[1]);
	munmap(policy, page_size());
	if (read(reply[0], &c, 1) != 1)
		fail("the daemon does not start");

	prize->daemon = pid;
	prize->request = request[1];
	prize->reply = reply[0];
	snprintf(prize->args[0], sizeof(prize->args[0]), "%d", pid);
	snprintf(prize->args[1], sizeof(prize->args[1]), "%p", (void *)policy);
}

/* Let the daemon end. Returns whether it gave its secret away. */
bool daemon_stop(struct prize *prize)
{
	int status;

	close(prize->request);
	close(prize->reply);
	if (waitpid(prize->daemon, &status, 0) != prize->daemon)
		fail("waiting for the daemon: %s", strerror(errno));
	prize->daemon = 0;

	if (!WIFEXITED(status) || (WEXITSTATUS(status) &&
				   WEXITSTATUS(status) != EXIT_GRANTED))
		fail("the daemon came to harm (wait status %#x)", status);
	return WEXITSTATUS(status) == EXIT_GRANTED;
}
