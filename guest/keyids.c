// SPDX-License-Identifier: GPL-2.0-only
/*
 * How memory gets a KeyID.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fail.h"
#include "keyids.h"

#define ENCRYPT	"/sys/kernel/debug/mktme/encrypt"

int encrypt(void *at, size_t size, unsigned int keyid)
{
	static int fd = -1;

	if (fd < 0)
		fd = open(ENCRYPT, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		fail(ENCRYPT);
	return dprintf(fd, "%lx %zx %u", (unsigned long)at, size, keyid) < 0 ? -1 : 0;
}
