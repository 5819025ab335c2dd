// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keys that memory is encrypted with, and what is around them: programs that use
 * them, packages that come and go, sleep.
 *
 * keys PACKAGES: for a machine with two CPUs, in TAP.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../kernel/samples/mktme/mktme.h"
#include "compiler.h"
#include "fail.h"
#include "files.h"
#include "keyids.h"

#define ONLINE	"/sys/devices/system/cpu/cpu1/online"
#define STATE	"/sys/power/state"
#define WAIT_S	5

#define MAX_KEYIDS	63
#define PAGE		4096U
#define SIZE		(16 * PAGE)
#define ROUNDS		200

static unsigned int packages;
static char why[512];

/* As many keys as there are. */
static unsigned int all_keys(int *to)
{
	unsigned int nr;

	for (nr = 0; nr < MAX_KEYIDS; nr++) {
		to[nr] = mktme_random_key();
		if (to[nr] < 0)
			break;
	}
	return nr;
}

static void close_keys(const int *keys, unsigned int nr)
{
	while (nr--)
		close(keys[nr]);
}

/* === Programs =========================================================== */

/* Run a program, and return the output that it makes of its input. */
static void run(const char *program, const char *input, char *output, size_t size)
{
	int to[2], from[2], status;
	ssize_t length;
	size_t all = 0;
	pid_t pid;

	if (pipe(to) || pipe(from))
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		close(to[1]);
		close(from[0]);
		execl(program, program, NULL);
		fail("%s", program);
	}
	close(to[0]);
	close(from[1]);
	if (write(to[1], input, strlen(input)) < 0)
		fail("pipe");
	close(to[1]);
	while ((length = read(from[0], output + all, size - 1 - all)) > 0)
		all += length;
	output[all] = '\0';
	close(from[0]);
	waitpid(pid, &status, 0);
	if (status)
		snprintf(why, sizeof(why), "status %#x", status);
}

static bool says(const char *program, const char *input, const char *expected)
{
	char output[256];

	run(program, input, output, sizeof(output));
	if (!why[0] && strcmp(output, expected))
		snprintf(why, sizeof(why), "it says %s", output);
	return !why[0];
}

static bool a_store_keeps_secrets(void)
{
	return says("/bin/secret_store",
		    "put one first\nput two second\nget one\nget two\nget three\n"
		    "put one third\nget one\nforget\nget one\nput one fourth\n",
		    "kept\nkept\nfirst\nsecond\nunknown\nkept\nthird\nforgotten\n"
		    "lost\nlost\n");
}

static bool a_heap_is_under_a_key(void)
{
	return says("/bin/encrypted_heap", "pear\napple\nfig\n\nquince\n",
		    "\napple\nfig\npear\nquince\n");
}

/* === The machine ======================================================== */

static bool each_package_is_programmed(void)
{
	u64 before = counted("programmed"), after;
	int key = mktme_random_key();

	if (key < 0)
		fail("mktme_key_create");
	after = counted("programmed");
	close(key);
	if (after - before != packages)
		snprintf(why, sizeof(why), "%llu times", after - before);
	return !why[0];
}

/* Keys are forgotten a little after they are closed. */
static bool offline_soon(void)
{
	int tries;

	for (tries = 0; tries < WAIT_S * 10; tries++) {
		if (write_text(ONLINE, "0"))
			return true;
		usleep(100000);
	}
	return false;
}

static bool keys_need_each_package(void)
{
	int key;

	if (!offline_soon())
		fail("CPU 1 does not go offline");
	key = mktme_random_key();
	if (packages == 1 && key < 0)
		snprintf(why, sizeof(why), "no key: %s", strerror(errno));
	if (packages > 1 && (key >= 0 || errno != ENODEV))
		snprintf(why, sizeof(why), "a key, or %s", strerror(errno));
	if (key >= 0)
		close(key);
	if (!write_text(ONLINE, "1"))
		fail("CPU 1 does not come online");
	return !why[0];
}

static bool packages_stay_with_keys(void)
{
	int key = mktme_random_key();
	bool gone;

	if (key < 0)
		fail("mktme_key_create");
	errno = 0;
	gone = write_text(ONLINE, "0");
	if (gone != (packages == 1) || (!gone && errno != EBUSY))
		snprintf(why, sizeof(why), "CPU 1: %s", strerror(errno));
	if (gone && !write_text(ONLINE, "1"))
		fail("CPU 1 does not come online");
	close(key);
	if (!offline_soon())
		snprintf(why, sizeof(why), "CPU 1 stays without keys: %s",
			 strerror(errno));
	else if (!write_text(ONLINE, "1"))
		fail("CPU 1 does not come online");
	return !why[0];
}

static bool nobody_sleeps_with_keys(void)
{
	int key = mktme_random_key();

	if (key < 0)
		fail("mktme_key_create");
	if (write_text(STATE, "freeze"))
		snprintf(why, sizeof(why), "the machine has slept");
	else if (errno != EBUSY)
		snprintf(why, sizeof(why), "%s", strerror(errno));
	close(key);
	return !why[0];
}

/* === Memory that is short =============================================== */

/* One allocation of ten fails for who asks for that. */
static void let_allocations_fail(const char *kind)
{
	static const char * const settings[][2] = {
		{ "probability", "10" }, { "times", "-1" }, { "verbose", "0" },
		{ "task-filter", "Y" }, { "ignore-gfp-wait", "N" },
	};
	char path[128];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", kind,
			 settings[i][0]);
		if (!write_text(path, settings[i][1]))
			fail("%s", path);
	}
}

/* Check that memory under a key is right; returns how often it got some. */
static unsigned int use_key(void)
{
	int key = mktme_random_key();
	unsigned int used = 0, i;
	char *m;

	if (key < 0)
		return 0;
	m = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m != MAP_FAILED) {
		if (!mktme_mprotect(m, SIZE, PROT_READ | PROT_WRITE, key)) {
			for (i = 0; i < SIZE; i += PAGE, used++) {
				if (m[i])
					_exit(2);
				m[i] = 1 + i / PAGE;
			}
			for (i = 0; i < SIZE; i += PAGE)
				if (m[i] != (char)(1 + i / PAGE))
					_exit(3);
		}
		munmap(m, SIZE);
	}
	close(key);
	return used;
}

static bool nothing_is_left_when_memory_is_short(void)
{
	int keys[MAX_KEYIDS + 1], status;
	unsigned int before, after, i, used = 0, short_of = 0;
	pid_t child;

	before = all_keys(keys);
	close_keys(keys, before);
	let_allocations_fail("failslab");
	let_allocations_fail("fail_page_alloc");
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		if (!write_text("/proc/self/make-it-fail", "1"))
			fail("make-it-fail");
		for (i = 0; i < ROUNDS; i++) {
			unsigned int one = use_key();

			used += one;
			short_of += !one;
		}
		/* Both must have been seen. */
		_exit(used && short_of ? 0 : 4);
	}
	waitpid(child, &status, 0);
	after = all_keys(keys);
	close_keys(keys, after);
	if (status)
		snprintf(why, sizeof(why), "status %#x", status);
	else if (after != before)
		snprintf(why, sizeof(why), "%u keys of %u", after, before);
	return !why[0];
}

static const struct {
	const char *name;
	bool (*check)(void);
} checks[] = {
	{ "a store keeps secrets until it forgets them", a_store_keeps_secrets },
	{ "a heap is under a key", a_heap_is_under_a_key },
	{ "each package is programmed", each_package_is_programmed },
	{ "keys need each package", keys_need_each_package },
	{ "packages stay with keys", packages_stay_with_keys },
	{ "nobody sleeps with keys", nobody_sleeps_with_keys },
	{ "nothing is left when memory is short",
	  nothing_is_left_when_memory_is_short },
};

int main(int argc, char **argv)
{
	unsigned int i, failed = 0;

	packages = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	if (!packages) {
		fprintf(stderr, "usage: keys PACKAGES\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("TAP version 13\n1..%zu\n", ARRAY_SIZE(checks));
	for (i = 0; i < ARRAY_SIZE(checks); i++) {
		bool good;

		why[0] = '\0';
		good = checks[i].check();
		failed += !good;
		printf("%sok %u %s, packages %u\n", good ? "" : "not ", i + 1,
		       checks[i].name, packages);
		if (!good)
			printf("# %s\n", why);
	}
	return !!failed;
}
