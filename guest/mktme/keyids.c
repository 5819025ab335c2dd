// SPDX-License-Identifier: GPL-2.0-only
/*
 * How memory gets a KeyID: by a key that occupies it, which this process makes.
 * And what the kernel counts.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../kernel/samples/mktme/mktme.h"
#include "fail.h"
#include "files.h"
#include "keyids.h"

#define MAX_KEYIDS	63
#define STATS		"/sys/kernel/debug/mktme/stats"

static unsigned int keyid_of(int key)
{
	unsigned int keyid = 0;
	char line[128];
	FILE *file;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", key);
	file = fopen(line, "re");
	if (!file)
		fail("%s", line);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "mktme-keyid: %u", &keyid) == 1)
			break;
	fclose(file);
	return keyid;
}

/* The kernel decides which KeyID a key has: make some until it is that. */
static int key_with(unsigned int keyid)
{
	/* One more than the descriptor. */
	static int keys[MAX_KEYIDS + 1];

	while (!keys[keyid]) {
		int key = mktme_random_key();

		if (key < 0)
			fail("a key with KeyID %u", keyid);
		keys[keyid_of(key)] = key + 1;
	}
	return keys[keyid] - 1;
}

int encrypt(void *at, size_t size, unsigned int keyid)
{
	return mktme_mprotect(at, size, PROT_READ | PROT_WRITE, key_with(keyid));
}

u64 counted(const char *name)
{
	if (access(STATS, R_OK))
		fail(STATS);
	return number_in(STATS, name);
}
