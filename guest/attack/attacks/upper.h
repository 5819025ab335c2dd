/* SPDX-License-Identifier: GPL-2.0-only */
/* Tables that an attacker forges, and entries that lead there. */
#ifndef GUEST_ATTACKS_UPPER_H
#define GUEST_ATTACKS_UPPER_H

#include "common.h"

u64 forge_tables_from(int from, int to, char *target, u64 entry);
u64 forge_tables(int level, char *target, u64 phys);
u64 forge_root(const struct kpkeys_vuln_mm *mm, char *target, u64 entry);
char *forged_target(int level);
int attack_upper(int level, const char *path);

#endif /* GUEST_ATTACKS_UPPER_H */
