// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "fail.h"

/* Counters of address space isolation, if that is on. */
#define SWITCHES	"/sys/kernel/debug/asi/switches"
/* Counters of memory under KeyIDs, if there is any. */
#define FLUSHES		"/sys/kernel/debug/mktme/stats"
#define VMSTAT		"/proc/vmstat"
#define TLB_PREFIX	"nr_tlb_"
#define INTERRUPTS	"/proc/interrupts"
#define IPIS		"ipi"

/* All of a file; NULL if there is none. */
static const char *read_all(const char *name)
{
	static char text[32768];
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t size;

	if (fd < 0 && errno == ENOENT)
		return NULL;
	if (fd < 0)
		fail("%s", name);
	while ((size = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += size;
	if (size < 0)
		fail("%s", name);
	close(fd);
	text[used] = '\0';
	return text;
}

static void add(struct counters *counters, const char *name, u64 value)
{
	unsigned int i = counters->nr;

	if (i == MAX_COUNTERS) {
		errno = E2BIG;
		fail("counters");
	}
	snprintf(counters->names[i], sizeof(counters->names[i]), "%s", name);
	counters->values[i] = value;
	counters->nr++;
}

/* Lines of a name and a number, of which the name begins so. */
static void add_lines(struct counters *counters, const char *text,
		      const char *prefix)
{
	unsigned long long value;
	char name[64];
	int used;

	while (text && sscanf(text, "%63s %llu\n%n", name, &value, &used) == 2) {
		if (!strncmp(name, prefix, strlen(prefix)))
			add(counters, name, value);
		text += used;
	}
}

/* The numbers behind a label, one for each CPU. */
static u64 sum_of(const char *text, const char *label)
{
	const char *at = text ? strstr(text, label) : NULL;
	u64 sum = 0, value;
	char *end;

	if (!at)
		return 0;
	for (at += strlen(label); ; at = end) {
		value = strtoull(at, &end, 10);
		if (end == at)
			return sum;
		sum += value;
	}
}

void look(struct counters *counters)
{
	const char *text;

	counters->nr = 0;
	add_lines(counters, read_all(SWITCHES), "");
	add_lines(counters, read_all(FLUSHES), "");
	add_lines(counters, read_all(VMSTAT), TLB_PREFIX);
	text = read_all(INTERRUPTS);
	/* To be scheduled, and to call a function, which may flush a TLB. */
	add(counters, IPIS, sum_of(text, "RES:") + sum_of(text, "CAL:"));
}
