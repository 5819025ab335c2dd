// SPDX-License-Identifier: GPL-2.0-only
/*
 * A store that keeps secrets in memory only, under a key that nobody knows.
 *
 * secret_store: reads commands from standard input, until it ends.
 *
 *   put NAME SECRET	keeps a secret
 *   get NAME		prints it
 *   forget		revokes the key: all secrets are lost, even on the chips
 *
 * The buffers of stdio are not under the key: a real store would read its
 * secrets directly into encrypted memory.
 */
#define _GNU_SOURCE
#include <err.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "mktme.h"

#define MAX_SECRETS	64
#define MAX_NAME	32
#define MAX_SECRET	160

struct secret {
	char name[MAX_NAME];
	char text[MAX_SECRET];
};

static struct secret *secrets;
static sigjmp_buf lost;

static void on_sigbus(int signal)
{
	siglongjmp(lost, 1);
}

static struct secret *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < MAX_SECRETS; i++)
		if (!strcmp(secrets[i].name, name))
			return &secrets[i];
	return NULL;
}

/* Both buffers are as large as the fields of the store. */
static bool put(const char *name, const char *text)
{
	struct secret *secret = find(name);

	if (!secret)
		secret = find("");
	if (!secret)
		return false;
	memcpy(secret->name, name, MAX_NAME);
	memcpy(secret->text, text, MAX_SECRET);
	return true;
}

static void obey(int key, const char *line)
{
	char command[8], name[MAX_NAME] = "", text[MAX_SECRET] = "";
	int words = sscanf(line, "%7s %31s %159s", command, name, text);
	struct secret *secret;

	if (sigsetjmp(lost, 1)) {
		puts("lost");
	} else if (words == 3 && !strcmp(command, "put")) {
		puts(put(name, text) ? "kept" : "full");
	} else if (words == 2 && !strcmp(command, "get")) {
		secret = find(name);
		puts(secret ? secret->text : "unknown");
	} else if (words == 1 && !strcmp(command, "forget")) {
		puts(mktme_key_revoke(key) ? "not all is lost" : "forgotten");
	} else {
		puts("put NAME SECRET, get NAME, or forget");
	}
	explicit_bzero(text, sizeof(text));
}

int main(void)
{
	const struct sigaction action = { .sa_handler = on_sigbus };
	size_t size = MAX_SECRETS * sizeof(*secrets);
	int key = mktme_random_key();
	char line[256];

	if (key < 0)
		err(1, "mktme_key_create");
	secrets = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (secrets == MAP_FAILED)
		err(1, "mmap");
	if (mktme_mprotect(secrets, size, PROT_READ | PROT_WRITE, key))
		err(1, "mktme_mprotect");
	/* Keep it out of core files and children. */
	if (madvise(secrets, size, MADV_DONTDUMP) ||
	    madvise(secrets, size, MADV_DONTFORK))
		err(1, "madvise");
	if (sigaction(SIGBUS, &action, NULL))
		err(1, "sigaction");

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		obey(key, line);
	explicit_bzero(line, sizeof(line));
	return 0;
}
