// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "smaps.h"

unsigned long smaps_kb(const char *m, size_t size, const char *name)
{
	unsigned long from = (unsigned long)m, to = from + size;
	unsigned long start, end, kb, sum = 0;
	FILE *file = fopen("/proc/self/smaps", "re");
	size_t length = strlen(name);
	bool inside = false;
	char line[256];

	if (!file)
		return ~0UL;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			inside = start < to && end > from;
		else if (inside && !strncmp(line, name, length) &&
			 sscanf(line + length, ": %lu kB", &kb) == 1)
			sum += kb;
	}
	fclose(file);
	return sum;
}
