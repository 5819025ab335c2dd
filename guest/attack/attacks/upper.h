/* SPDX-License-Identifier: GPL-2.0-only */
/* Attacks that redirect an upper-level entry to forged tables. */
#ifndef GUEST_ATTACKS_UPPER_H
#define GUEST_ATTACKS_UPPER_H

#include "common.h"

u64 forge_tables(int level, char *target, u64 phys);
char *forged_target(int level);
int attack_upper(int level, const char *path);

#endif /* GUEST_ATTACKS_UPPER_H */
