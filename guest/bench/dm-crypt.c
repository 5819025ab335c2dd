// SPDX-License-Identifier: GPL-2.0-only
/*
 * A disk in memory that dm-crypt encrypts with AES-XTS, whose key is one of the
 * type logon. It stays until the guest ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "bench-user.h"

#define CONTROL	"/dev/mapper/control"
#define BELOW	"/dev/ram0"
#define NODE	"/bench-dm"
#define SECTORS	2048
#define KEY	"redoubt:bench"
#define BLOCK	4096

struct request {
	struct dm_ioctl dm;
	struct dm_target_spec target;
	char options[256];
};

static void ask(int control, unsigned long what, struct request *request)
{
	request->dm.version[0] = DM_VERSION_MAJOR;
	request->dm.data_size = sizeof(*request);
	request->dm.data_start = sizeof(request->dm);
	snprintf(request->dm.name, sizeof(request->dm.name), "bench");
	if (ioctl(control, what, &request->dm))
		die("%s: %s", CONTROL, strerror(errno));
}

static dev_t create(void)
{
	int control = open(CONTROL, O_RDWR | O_CLOEXEC);
	struct request request = { 0 };
	dev_t made;

	if (control < 0)
		die("%s: %s", CONTROL, strerror(errno));
	ask(control, DM_DEV_CREATE, &request);
	made = request.dm.dev;

	memset(&request, 0, sizeof(request));
	request.dm.target_count = 1;
	request.target.length = SECTORS;
	snprintf(request.target.target_type, sizeof(request.target.target_type), "crypt");
	snprintf(request.options, sizeof(request.options),
		 "aes-xts-plain64 :64:logon:%s 0 %s 0 2 sector_size:%d no_read_workqueue",
		 KEY, BELOW, BLOCK);
	ask(control, DM_TABLE_LOAD, &request);

	/* Without the flag to suspend it, it begins. */
	memset(&request, 0, sizeof(request));
	ask(control, DM_DEV_SUSPEND, &request);
	close(control);
	return makedev(major(made), minor(made));
}

/* Past the page cache, which would decrypt once only. */
static int encrypted_disk(void)
{
	static const char material[64] = { 1, [32] = 2 };	/* XTS refuses equal halves */
	static int fd = -1;

	if (fd >= 0)
		return fd;
	if (syscall(SYS_add_key, "logon", KEY, material, sizeof(material),
		    KEY_SPEC_SESSION_KEYRING) < 0)
		die("add_key: %s", strerror(errno));
	if (mknod(NODE, S_IFBLK | 0600, create()))
		die("%s: %s", NODE, strerror(errno));
	fd = open(NODE, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", NODE, strerror(errno));
	return fd;
}

void dm_crypt_read(u64 size)
{
	static char *content;
	int fd = encrypted_disk();

	if (!content && posix_memalign((void **)&content, BLOCK, size))
		die("no memory");
	if (pread(fd, content, size, 0) != (ssize_t)size)
		die("%s: %s", NODE, strerror(errno));
}
