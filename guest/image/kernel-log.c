// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compiler.h"
#include "kernel-log.h"

/* Drivers tell serial numbers of devices, which are nobody's business. */
static const char *const private[] = {
	"usb", "scsi", "sd ", "nvme", "ata", "hid", "input:", "mmc", "virtio_blk",
};

static int is_private(const char *text)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(private); i++)
		if (!strncmp(text, private[i], strlen(private[i])))
			return 1;
	return 0;
}

void log_text(char *text)
{
	char *to = text;
	unsigned int c;

	for (; *text; *to++ = c) {
		if (sscanf(text, "\\x%2x", &c) == 1)
			text += strlen("\\x00");
		else
			c = *text++;
	}
	*to = '\0';
}

int log_open(int from_now)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, from_now ? SEEK_END : SEEK_SET);
	return fd;
}

bool log_next(int fd, char *text, size_t size)
{
	static char record[16384];
	char *found;
	ssize_t n;

	/* A record a call; EPIPE says that some were overwritten. */
	while (fd >= 0 && ((n = read(fd, record, sizeof(record) - 1)) > 0 ||
			   errno == EPIPE || errno == EINTR)) {
		if (n <= 0)
			continue;
		record[n] = '\0';
		found = strchr(record, ';');
		if (!found)
			continue;
		found++;
		/* Behind the text come fields for programs. */
		found[strcspn(found, "\n")] = '\0';
		log_text(found);
		if (is_private(found))
			continue;
		snprintf(text, size, "%s", found);
		return true;
	}
	return false;
}
