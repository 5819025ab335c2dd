// SPDX-License-Identifier: GPL-2.0-only
/* Point the attacker's own PGD entry to a forged hierarchy. */
#include <stddef.h>

#include "common.h"
#include "upper.h"

int main(int argc, char **argv)
{
	return attack_upper(KPKEYS_VULN_PGD, argc > 1 ? argv[1] : NULL);
}
