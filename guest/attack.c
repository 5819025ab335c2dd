// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run attacks inside a guest and say what came of each.
 *
 * As root: lay out a prize, start the attack as an unprivileged user, then
 * look at the prize and at the health of the machine. Whether a failed attack
 * was blocked or merely broken is for the caller to judge, who also sees the
 * kernel's log.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack-runner.h"
#include "kmsg.h"

#define PROGRAMS	"/bin/attacks"
#define STATS_FILE	"/sys/kernel/debug/kpkeys/stats"
#define TIMEOUT_S	60

struct attack {
	const char *name;
	bool in_scope;
	enum prize_kind prize;
	const char *description;
};

static const struct attack attacks[] = {
	{ "own-pte", true, PRIZE_FILE,
	  "own PTE maps the page cache of a root-only file" },
	{ "own-pmd", true, PRIZE_FILE,
	  "own PMD entry points to a forged table" },
	{ "own-pgd", true, PRIZE_FILE,
	  "own PGD entry points to a forged hierarchy" },
	{ "other-pte", true, PRIZE_DAEMON_PAGE,
	  "PTE of a root daemon maps the attacker's page" },
	{ "freed-table", true, PRIZE_FILE,
	  "freed page reused as page table, written through a dangling pointer" },
	{ "kernel-pte", true, PRIZE_KERNEL,
	  "kernel (vmalloc) PTE maps the attacker's page" },
	{ "cred", false, PRIZE_FILE,
	  "uid 0 written into the attacker's own credentials" },
	{ "forged-pgd", false, PRIZE_FILE,
	  "mm->pgd points to a forged topmost table" },
	{ "saved-reg", false, PRIZE_DAEMON_REG,
	  "saved user register of a root daemon altered" },
};

static const struct attack *find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(attacks); i++)
		if (!strcmp(attacks[i].name, name))
			return &attacks[i];
	fail("no attack is called '%s'; see /bin/attack --list", name);
}

static void list(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(attacks); i++)
		printf("%s %s %s\n", attacks[i].name,
		       attacks[i].in_scope ? "in-scope" : "out-of-scope",
		       attacks[i].description);
}

/* Open the driver for an attacker: as if some bug had opened it up. */
static int open_driver(void)
{
	int fd = open(VULN_FILE, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		fail("%s is missing: set CONFIG_KPKEYS_VULN_TEST=y and boot with kpkeys_vuln=on",
		     VULN_FILE);
	if (fd < 0)
		fail("%s: %s", VULN_FILE, strerror(errno));
	return fd;
}

/*
 * Copy the attack to where an unprivileged user can execute it: the modes of
 * the root directory are those of whatever the host has there. For the same
 * reason the attacker starts in the work directory and uses relative names.
 */
static void install(const char *name)
{
	char from[64], path[64];
	struct stat st;
	int in, out;

	snprintf(from, sizeof(from), "%s/%s", PROGRAMS, name);
	snprintf(path, sizeof(path), "%s/%s", WORK_DIR, name);
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0 || fstat(in, &st))
		fail("%s: %s", from, strerror(errno));
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	if (out < 0 || fchmod(out, 0755))
		fail("%s: %s", path, strerror(errno));
	while (st.st_size > 0) {
		ssize_t n = sendfile(out, in, NULL, st.st_size);

		if (n <= 0)
			fail("copying %s: %s", from, strerror(errno));
		st.st_size -= n;
	}
	close(in);
	close(out);
}

static noreturn void be_the_attacker(char *name, struct prize *prize, int loot)
{
	int fds[] = { loot, prize->request, prize->reply, open_driver() };
	char *argv[4] = { name };
	sigset_t none;
	size_t i;

	/* Out of the way first, so that no target overwrites a source. */
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 64);
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			dup2(fds[i], FD_LOOT + i);
	for (i = 0; i < 2; i++)
		if (prize->args[i][0])
			argv[i + 1] = prize->args[i];

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir(WORK_DIR) || setgroups(0, NULL) ||
	    setresgid(ATTACKER_UID, ATTACKER_UID, ATTACKER_UID) ||
	    setresuid(ATTACKER_UID, ATTACKER_UID, ATTACKER_UID))
		fail("becoming uid %d: %s", ATTACKER_UID, strerror(errno));
	execv(name, argv);
	fail("%s: %s", name, strerror(errno));
}

/* Wait for @pid, but not for ever. Returns its wait status. */
static int wait_for(pid_t pid, const char *name)
{
	const struct timespec limit = { .tv_sec = TIMEOUT_S };
	sigset_t chld;
	int status;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (sigtimedwait(&chld, NULL, &limit) >= 0 || errno == EINTR)
			continue;
		fprintf(stderr, "attack: %s: killed after %d s\n", name,
			TIMEOUT_S);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		break;
	}
	return status;
}

/* Whether new processes, memory and files still work. */
static bool machine_alive(void)
{
	size_t length = 256 << 10, i;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return false;
	if (!pid) {
		char *m = map_pages(NULL, length);
		char buf[4096];
		int fd;

		for (i = 0; i < length; i += page_size())
			m[i] = i / page_size();
		for (i = 0; i < length; i += page_size())
			if (m[i] != (char)(i / page_size()))
				_exit(1);
		fd = open("/proc/self/maps", O_RDONLY);
		if (fd < 0 || read(fd, buf, sizeof(buf)) <= 0)
			_exit(1);
		if (!access(STATS_FILE, F_OK)) {
			fd = open(STATS_FILE, O_RDONLY);
			if (fd < 0 || read(fd, buf, sizeof(buf)) <= 0)
				_exit(1);
		}
		_exit(0);
	}
	status = wait_for(pid, "health check");
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void run(const struct attack *attack)
{
	char name[32], loot[TOKEN_LEN + 1] = "";
	struct prize prize;
	const char *text;
	int fds[2], status;
	bool won, alive;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	prize_prepare(&prize, attack->prize);
	install(attack->name);
	snprintf(name, sizeof(name), "%s", attack->name);

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (!pid)
		be_the_attacker(name, &prize, fds[1]);
	status = wait_for(pid, attack->name);

	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	if (read(fds[0], loot, TOKEN_LEN) < 0 && errno != EAGAIN)
		fail("reading the loot: %s", strerror(errno));
	close(fds[0]);
	close(fds[1]);

	won = prize_verify(&prize, loot, &text);
	prize_remove(&prize);
	alive = machine_alive();

	/* The kernel may be telling what has happened, still. */
	if (!kmsg("@attack: %s outcome=%s prize=%s attacker=%s %d alive=%s\n",
		  attack->name, won ? "succeeded" : "failed", text,
		  WIFSIGNALED(status) ? "signal" : "exit",
		  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		  alive ? "yes" : "no"))
		fail("/dev/kmsg: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	sigset_t chld;
	size_t i;
	int a;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		list();
		return 0;
	}
	if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--all")))
		fail("usage: attack --list | --all | NAME...");
	if (argc > 2 && !strcmp(argv[1], "--all"))
		fail("--all takes no names");

	/* Kept pending for sigtimedwait(). */
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);

	if (!strcmp(argv[1], "--all")) {
		close(open_driver());
		for (i = 0; i < ARRAY_SIZE(attacks); i++)
			run(&attacks[i]);
		return 0;
	}
	for (a = 1; a < argc; a++)
		find(argv[a]);
	close(open_driver());
	for (a = 1; a < argc; a++)
		run(find(argv[a]));
	return 0;
}
