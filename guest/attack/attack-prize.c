// SPDX-License-Identifier: GPL-2.0-only
/* The prizes of attacks, and root's look at whether one was won. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attack-runner.h"

static void make_token(char *token)
{
	unsigned char random[TOKEN_LEN / 2];
	size_t i;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		fail("getrandom: %s", strerror(errno));
	for (i = 0; i < sizeof(random); i++)
		sprintf(token + 2 * i, "%02x", random[i]);
}

/* The file has to live in the page cache, which the host keeps for hostfs. */
static void make_work_dir(void)
{
	struct statfs fs;

	if (mkdir(WORK_DIR, 0755) && errno != EEXIST)
		fail("%s: %s", WORK_DIR, strerror(errno));
	if (chmod(WORK_DIR, 0755) || statfs(WORK_DIR, &fs))
		fail("%s: %s", WORK_DIR, strerror(errno));
	if (fs.f_type != TMPFS_MAGIC)
		fail("%s is not on a tmpfs; mount one on /tmp", WORK_DIR);
}

static void make_file(const char *token)
{
	int fd = open(SECRET_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		      0600);

	if (fd < 0 || write(fd, token, TOKEN_LEN) != TOKEN_LEN || close(fd))
		fail("%s: %s", SECRET_FILE, strerror(errno));
}

static bool file_is_intact(const char *token)
{
	char now[TOKEN_LEN + 1];
	int fd = open(SECRET_FILE, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, now, sizeof(now));
	close(fd);
	return n == TOKEN_LEN && !memcmp(now, token, TOKEN_LEN);
}

static void tell_driver(const char *token)
{
	struct kpkeys_vuln_secret secret = { 0 };
	int fd = open(VULN_FILE, O_RDWR | O_CLOEXEC);

	memcpy(secret.text, token, TOKEN_LEN);
	if (fd < 0 || ioctl(fd, KPKEYS_VULN_SECRET_SET, &secret))
		fail("%s: %s", VULN_FILE, strerror(errno));
	close(fd);
}

/* Only root looks into other programs. */
static void restrict_ptrace(void)
{
	int fd = open(PTRACE_SCOPE, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "2", 1) != 1)
		fail(PTRACE_SCOPE ": %s", strerror(errno));
	close(fd);
}

/* The kernel uses a key of this type, and gives it to no program. */
static void make_key(struct prize *prize)
{
	long key = syscall(SYS_add_key, "logon", "redoubt:prize", prize->token, TOKEN_LEN,
			   KEY_SPEC_PROCESS_KEYRING);

	if (key < 0)
		fail("add_key: %s", strerror(errno));
	snprintf(prize->args[0], sizeof(prize->args[0]), "%ld", key);
}

/* The key of a daemon becomes the token. The caller is root, and its parent. */
static void set_daemon_key(const struct prize *prize)
{
	u64 key[2];
	struct iovec iov = { .iov_base = key, .iov_len = sizeof(key) };
	pid_t daemon = prize->daemon;

	if (sscanf(prize->token, "%16llx%16llx", (unsigned long long *)&key[0],
		   (unsigned long long *)&key[1]) != 2)
		fail("'%s' is no key", prize->token);
	if (ptrace(PTRACE_ATTACH, daemon, NULL, NULL) || waitpid(daemon, NULL, 0) != daemon ||
	    ptrace(PTRACE_SETREGSET, daemon, (void *)NT_ARM_PACG_KEYS, &iov) ||
	    ptrace(PTRACE_DETACH, daemon, NULL, NULL))
		fail("key of the daemon: %s", strerror(errno));
}

void prize_prepare(struct prize *prize, enum prize_kind kind)
{
	memset(prize, 0, sizeof(*prize));
	prize->kind = kind;
	prize->request = -1;
	prize->reply = -1;
	make_token(prize->token);
	make_work_dir();
	unlink(SECRET_FILE);
	unlink(LOOT_FILE);

	switch (kind) {
	case PRIZE_FILE:
	case PRIZE_ROOT_PROGRAM:
		make_file(prize->token);
		snprintf(prize->args[0], sizeof(prize->args[0]), SECRET_NAME);
		break;
	case PRIZE_DAEMON_PAGE:
	case PRIZE_DAEMON_REG:
	case PRIZE_DAEMON_MEMORY:
		daemon_start(prize);
		break;
	case PRIZE_DAEMON_KEY:
		daemon_start(prize);
		set_daemon_key(prize);
		break;
	case PRIZE_AGENT:
		restrict_ptrace();
		daemon_start(prize);
		break;
	case PRIZE_KERNEL:
		tell_driver(prize->token);
		break;
	case PRIZE_KEY:
		make_key(prize);
		break;
	}
}

/*
 * Returns whether the attack won all there was. @text is set to what became of
 * the prize; it is "intact" only if no part of it was won.
 */
bool prize_verify(struct prize *prize, const char *loot, const char **text)
{
	bool read = !strcmp(loot, prize->token);
	bool altered = false, granted = false;

	switch (prize->kind) {
	case PRIZE_FILE:
	case PRIZE_ROOT_PROGRAM:
		altered = !file_is_intact(prize->token);
		*text = read && altered ? "root-only file read and altered" :
			read ? "root-only file read" :
			altered ? "root-only file altered" : "intact";
		return read && altered;
	case PRIZE_DAEMON_PAGE:
	case PRIZE_DAEMON_REG:
		granted = daemon_stop(prize);
		*text = read && granted ? "secret of a root daemon read" :
			read || granted ? "secret of a root daemon given away" :
			"intact";
		return read && granted;
	case PRIZE_DAEMON_MEMORY:
	case PRIZE_AGENT:
		daemon_stop(prize);
		*text = !read ? "intact" :
			prize->kind == PRIZE_AGENT ? "secret of another program read" :
			"secret of a root daemon read";
		return read;
	case PRIZE_KERNEL:
		*text = read ? "secret kept by the kernel read" : "intact";
		return read;
	case PRIZE_DAEMON_KEY:
		*text = read ? "key of a daemon read" : "intact";
		return read;
	case PRIZE_KEY:
		*text = read ? "key of root read" : "intact";
		return read;
	}
	return false;
}

void prize_remove(struct prize *prize)
{
	if (prize->daemon)
		daemon_stop(prize);
	unlink(SECRET_FILE);
}
