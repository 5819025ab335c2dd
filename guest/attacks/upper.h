/* SPDX-License-Identifier: GPL-2.0-only */
/* Attacks that redirect an upper-level entry to forged tables. */
#ifndef GUEST_ATTACKS_UPPER_H
#define GUEST_ATTACKS_UPPER_H

int attack_upper(int level, const char *path);

#endif /* GUEST_ATTACKS_UPPER_H */
