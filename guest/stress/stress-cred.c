// SPDX-License-Identifier: GPL-2.0-only
/*
 * Credentials: IDs that change for a while and for good, and whether the kernel
 * goes by them. access() asks as the real user, and so overrides credentials.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stress.h"

#define DIRECTORY	"/tmp"
#define FIRST_ID	1000
#define IDS		100

/* A file that root alone may read. */
static char path[64];

static bool make_file(void)
{
	int fd;

	if (mkdir(DIRECTORY, 0755) && errno != EEXIST)
		return false;
	snprintf(path, sizeof(path), DIRECTORY "/stress-cred-%d", getpid());
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static enum start start_cred(void)
{
	bool made;

	if (geteuid())
		return LEFT_OUT;
	do {
		made = make_file();
	} while (!made && scarce && means_refused(errno));
	if (made)
		return READY;
	perror("stress: a file in " DIRECTORY);
	return BROKEN;
}

static bool opens(bool expected)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno != EACCES)
		return need(false);
	if (fd >= 0)
		close(fd);
	return check((fd >= 0) == expected);
}

static bool is_accessible(bool expected)
{
	int err = access(path, R_OK);

	if (err && errno != EACCES)
		return need(false);
	return check(!err == expected);
}

static bool is_user(uid_t id)
{
	uid_t real, effective, saved;

	return check(!getresuid(&real, &effective, &saved)) &&
	       check(real == id && effective == id && saved == id);
}

static bool become(uid_t id)
{
	return need(!setgroups(0, NULL)) && need(!setresgid(id, id, id)) &&
	       need(!setresuid(-1, id, -1)) && opens(false) && is_accessible(true) &&
	       need(!setresuid(-1, 0, -1)) && opens(true) &&
	       need(!setresuid(id, id, id)) && opens(false) && is_accessible(false) &&
	       check(setresuid(0, 0, 0)) && is_user(id);
}

static bool op_cred(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(child_status(become(FIRST_ID + rnd(IDS)), 0));
	return ended_with(pid, 0) && is_user(0);
}

static bool end_cred(void)
{
	int err;

	do {
		err = unlink(path);
	} while (err && scarce && means_refused(errno));
	return check(!err);
}

const struct op cred_op = {
	.name = "cred",
	.run = op_cred,
	.start = start_cred,
	.end = end_cred,
};
