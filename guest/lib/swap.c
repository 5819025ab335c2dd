// SPDX-License-Identifier: GPL-2.0-only
/*
 * Somewhere to page out to.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/swap.h>
#include <unistd.h>

#include "compiler.h"
#include "swap.h"

/* The head of a swap area: <linux/swap.h> of the kernel. */
struct swap_header {
	char boot[1024];
	__u32 version;
	__u32 last_page;
	__u32 bad_pages;
};

static const char magic[] = "SWAPSPACE2";

static bool make_swap(int disk)
{
	static union {
		struct swap_header header;
		char bytes[64 << 10];
	} first;
	long page = sysconf(_SC_PAGESIZE);
	u64 size;

	if (ioctl(disk, BLKGETSIZE64, &size))
		return false;
	first.header.version = 1;
	first.header.last_page = size / page - 1;
	memcpy(first.bytes + page - strlen(magic), magic, strlen(magic));
	return pwrite(disk, first.bytes, page, 0) == page && !fsync(disk);
}

bool swap_on(const char *disk, int flags)
{
	int fd = open(disk, O_RDWR | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = make_swap(fd);
	close(fd);
	return ok && !swapon(disk, flags);
}
