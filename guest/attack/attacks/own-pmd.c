// SPDX-License-Identifier: GPL-2.0-only
/* Point the attacker's own PMD entry to a forged table. */
#include <stddef.h>

#include "common.h"
#include "upper.h"

int main(int argc, char **argv)
{
	return attack_upper(KPKEYS_VULN_PMD, argc > 1 ? argv[1] : NULL);
}
