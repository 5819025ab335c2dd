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
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attack-runner.h"
#include "kmsg.h"

#define PROGRAMS	"/bin/attacks"
#define STATS_FILE	"/sys/kernel/debug/kpkeys/stats"
#define THP_DIR		"/sys/kernel/mm/transparent_hugepage/"
#define TIMEOUT_S	900

struct attack {
	const char *name;
	bool in_scope;
	enum prize_kind prize;
	const char *description;
	const char *(*lacking)(void);
};

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

/* This kernel may lack the subject of an attack: NULL, or its name. */
static const char *lacking_frames(void)
{
	struct kpkeys_vuln_frame frame = { .pid = getpid() };
	int fd = open_driver();
	bool none = ioctl(fd, KPKEYS_VULN_FRAME, &frame) && errno == EOPNOTSUPP;

	close(fd);
	return none ? "no handler that interrupted the kernel keeps a task waiting" :
		      NULL;
}

static const char *lacking_preemption(void)
{
	const char *why = lacking_frames();
	struct utsname uts;

	if (why)
		return why;
	if (uname(&uts))
		fail("uname: %s", strerror(errno));
	return strstr(uts.version, "PREEMPT") ? NULL :
		"the kernel is not preempted";
}

static const char *lacking_huge_pages(void)
{
	unsigned long long size = 0;
	struct sysinfo info;
	char modes[64] = "";
	FILE *file;

	file = fopen(THP_DIR "enabled", "re");
	if (!file)
		return "the kernel has no transparent huge pages";
	if (!fgets(modes, sizeof(modes), file))
		fail(THP_DIR "enabled: %s", strerror(errno));
	fclose(file);
	if (strstr(modes, "[never]"))
		return "transparent huge pages are off: below 512 MB Linux uses none";

	file = fopen(THP_DIR "hpage_pmd_size", "re");
	if (!file || fscanf(file, "%llu", &size) != 1 || sysinfo(&info))
		fail(THP_DIR "hpage_pmd_size: %s", strerror(errno));
	fclose(file);
	return size * 12 > (unsigned long long)info.totalram * info.mem_unit ?
		"the huge pages of this kernel are too large for its memory" :
		NULL;
}

static void ask_driver(unsigned long request, void *arg, const char *what)
{
	int fd = open_driver(), err;

	err = ioctl(fd, request, arg);
	close(fd);
	if (err)
		fail("asking for %s: %s", what, strerror(errno));
}

/* Does nobody notice that mapped pages are freed? */
static const char *lacking_silence(void)
{
	long page = 0;
	struct kpkeys_vuln_mm mm = { .page = (uintptr_t)&page };

	ask_driver(KPKEYS_VULN_MM, &mm, "the counts of a page");
	return mm.counts ? NULL :
			   "the kernel checks the counts of pages (DEBUG_VM, page_table_check)";
}

static const char *lacking_core_dumps(void)
{
	return access("/proc/sys/kernel/core_pattern", F_OK) ?
		"the kernel does not dump core" : NULL;
}

/* A pipe writes to a page where the linear map has it. */
static const char *lacking_alias(void)
{
	struct kpkeys_vuln_symbol symbol = { .name = "core_pattern" };

	ask_driver(KPKEYS_VULN_SYMBOL, &symbol, "a symbol");
	if (symbol.addr && !symbol.page)
		return "the linear map does not have the data of the kernel";
	return lacking_core_dumps();
}

/* Is freed memory allocated again soon? */
static const char *lacking_reuse(void)
{
	struct kpkeys_vuln_symbol symbol = { .name = "kasan_quarantine_put" };

	ask_driver(KPKEYS_VULN_SYMBOL, &symbol, "a symbol");
	return symbol.addr ? "KASAN holds freed memory back" : NULL;
}

static const char *lacking_yama(void)
{
	return access(PTRACE_SCOPE, F_OK) ? "the kernel has no Yama" : NULL;
}

static const char *lacking_bpf(void)
{
	return syscall(SYS_bpf, 0, NULL, 0) < 0 && errno == ENOSYS ?
		"the kernel has no BPF" : NULL;
}

/* Users may have guests. */
static const char *lacking_guests(void)
{
	return chmod("/dev/kvm", 0666) ? "there are no guests of KVM" : NULL;
}

static const char *lacking_keys(void)
{
	return syscall(SYS_keyctl, 0, 0, 0) < 0 && errno == ENOSYS ?
		"the kernel keeps no keys" : NULL;
}

static const char *lacking_ptrauth(void)
{
#ifdef __aarch64__
	if (getauxval(AT_HWCAP) & HWCAP_PACG)
		return NULL;
#endif
	return "programs have no keys of pointer authentication";
}

/* UML runs the program of the task that is said to be the current one. */
static const char *lacking_current(void)
{
	struct kpkeys_vuln_task task = { .pid = getpid() };

	ask_driver(KPKEYS_VULN_TASK, &task, "a task");
	return task.current_task ? NULL :
				   "no word that only the kernel goes by says which task runs";
}

static const struct attack attacks[] = {
	{ "own-pte", true, PRIZE_FILE,
	  "own PTE maps the page cache of a root-only file", NULL },
	{ "own-pmd", true, PRIZE_FILE,
	  "own PMD entry points to a forged table", NULL },
	{ "own-pgd", true, PRIZE_FILE,
	  "own PGD entry points to a forged hierarchy", NULL },
	{ "other-pte", true, PRIZE_DAEMON_PAGE,
	  "PTE of a root daemon maps the attacker's page", NULL },
	{ "freed-table", true, PRIZE_FILE,
	  "freed page reused as page table, written through a dangling pointer", NULL },
	{ "reused-table", true, PRIZE_FILE,
	  "freed block taken for page tables, written through a dangling pointer", NULL },
	{ "mapped-block", true, PRIZE_FILE,
	  "pages freed while mapped, and written in user mode as page tables",
	  lacking_silence },
	{ "map-table", true, PRIZE_FILE,
	  "page cache says that a page table is a page of a file", NULL },
	{ "kernel-pte", true, PRIZE_KERNEL,
	  "kernel (vmalloc) PTE maps the attacker's page", NULL },
	{ "guest-table", true, PRIZE_KERNEL,
	  "page table of the attacker's guest maps the kernel's page",
	  lacking_guests },
	{ "tolerated-write", true, PRIZE_FILE,
	  "own PTE, through an accessor that tolerates faults", NULL },
	{ "bpf-hole", true, PRIZE_FILE,
	  "own PTE, by a BPF program that the verifier should have refused",
	  lacking_bpf },
	{ "sleeping-fault", true, PRIZE_FILE,
	  "own PTE, raised by the handler of a fault that waited",
	  lacking_frames },
	{ "preempted-frame", true, PRIZE_FILE,
	  "own PTE, raised by the handler of an interrupt that preempted",
	  lacking_preemption },
	{ "leaked-level", true, PRIZE_FILE,
	  "own PTE, raised by freeing huge pages in a forged lazy section",
	  lacking_huge_pages },
	{ "forged-pgd", true, PRIZE_FILE,
	  "mm->pgd points to a forged topmost table that the CPU loads", NULL },
	{ "forged-walk", true, PRIZE_FILE,
	  "mm->pgd points to a forged hierarchy that a page fault walks", NULL },
	{ "core-pattern", true, PRIZE_FILE,
	  "core_pattern names a program of the attacker", lacking_core_dumps },
	{ "pipe-page", true, PRIZE_FILE,
	  "a pipe writes to the page that has the path of a program of root",
	  lacking_alias },
	{ "lsm-off", true, PRIZE_AGENT,
	  "the switch of Yama lets users look into their programs again",
	  lacking_yama },
	{ "cred", true, PRIZE_FILE,
	  "uid 0 written into the attacker's own credentials", NULL },
	{ "task-cred", true, PRIZE_FILE,
	  "the attacker's task points to the credentials of the kernel", NULL },
	{ "dirty-cred", true, PRIZE_ROOT_PROGRAM,
	  "credentials freed while in use, and taken for those of root",
	  lacking_reuse },
	{ "forged-current", true, PRIZE_FILE,
	  "the word that says which task is current names one of root",
	  lacking_current },
	{ "task-mm", true, PRIZE_DAEMON_MEMORY,
	  "the attacker's thread points to the address space of a root daemon", NULL },
	{ "saved-reg", true, PRIZE_DAEMON_REG,
	  "saved user register of a root daemon altered", NULL },
	{ "key-read", true, PRIZE_KEY,
	  "a key of root read where the kernel keeps it", lacking_keys },
	{ "ptrauth-key", true, PRIZE_DAEMON_KEY,
	  "a key of a root daemon read where the kernel keeps it",
	  lacking_ptrauth },
	{ "page-cache", false, PRIZE_FILE,
	  "contents of a root-only file altered where they are cached", NULL },
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

/*
 * Copy the attack to where an unprivileged user can execute it: the modes of
 * the root directory are those of whatever the host has there. For the same
 * reason the attacker starts in the work directory and uses relative names.
 */
static void install(const char *name, const char *as, mode_t mode)
{
	char from[64], path[64];
	struct stat st;
	int in, out;

	snprintf(from, sizeof(from), "%s/%s", PROGRAMS, name);
	snprintf(path, sizeof(path), "%s/%s", WORK_DIR, as);
	in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0 || fstat(in, &st))
		fail("%s: %s", from, strerror(errno));
	/* A helper of an attack that just ended may still be executing it. */
	unlink(path);
	out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	if (out < 0)
		fail("%s: %s", path, strerror(errno));
	while (st.st_size > 0) {
		ssize_t n = sendfile(out, in, NULL, st.st_size);

		if (n <= 0)
			fail("copying %s: %s", from, strerror(errno));
		st.st_size -= n;
	}
	/* Writing clears the set-user-ID bit. */
	if (fchmod(out, mode))
		fail("%s: %s", path, strerror(errno));
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

/* Wait for @pid, but not for ever. Returns its wait status, or -1. */
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
		return -1;
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
	return status >= 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* How an attacker ended, as the one who reads the console knows it. */
static void describe(int status, char *text, size_t length)
{
	if (status < 0)
		snprintf(text, length, "timeout %d", TIMEOUT_S);
	else if (WIFSIGNALED(status))
		snprintf(text, length, "signal %d", WTERMSIG(status));
	else
		snprintf(text, length, "exit %d", WEXITSTATUS(status));
}

static void run(const struct attack *attack)
{
	const char *why = attack->lacking ? attack->lacking() : NULL;
	char name[32], end[32], loot[TOKEN_LEN + 1] = "";
	struct prize prize;
	const char *text;
	int fds[2], status;
	bool won, alive;
	pid_t pid;

	if (why) {
		if (!kmsg("@attack: %s not on this target: %s\n", attack->name,
			  why))
			fail("/dev/kmsg: %s", strerror(errno));
		return;
	}

	if (pipe2(fds, O_CLOEXEC))
		fail("pipe: %s", strerror(errno));
	prize_prepare(&prize, attack->prize);
	install(attack->name, attack->name, 0755);
	if (attack->prize == PRIZE_ROOT_PROGRAM)
		install(attack->name, ROOT_PROGRAM, 04755);
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
	describe(status, end, sizeof(end));
	if (!kmsg("@attack: %s outcome=%s prize=%s attacker=%s alive=%s\n",
		  attack->name, won ? "succeeded" : "failed", text, end,
		  alive ? "yes" : "no"))
		fail("/dev/kmsg: %s", strerror(errno));
}

static unsigned long number(const char *text)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || !value)
		fail("'%s' is no number of times", text);
	return value;
}

static void run_all(unsigned long times)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(attacks); i++) {
		unsigned long n;

		for (n = 0; n < times; n++)
			run(&attacks[i]);
	}
}

int main(int argc, char **argv)
{
	unsigned long times = 1, n;
	sigset_t chld;
	int a;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		list();
		return 0;
	}
	if (argc > 2 && !strcmp(argv[1], "--repeat")) {
		times = number(argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--all")))
		fail("usage: attack --list | [--repeat TIMES] { --all | NAME... }");
	if (argc > 2 && !strcmp(argv[1], "--all"))
		fail("--all takes no names");

	/* Kept pending for sigtimedwait(). */
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);

	if (!strcmp(argv[1], "--all")) {
		close(open_driver());
		run_all(times);
		return 0;
	}
	for (a = 1; a < argc; a++)
		find(argv[a]);
	close(open_driver());
	for (a = 1; a < argc; a++)
		for (n = 0; n < times; n++)
			run(find(argv[a]));
	return 0;
}
