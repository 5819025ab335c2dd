/* SPDX-License-Identifier: GPL-2.0-only */
/* A program of the attacker that the kernel is made to run as root. */
#ifndef GUEST_ATTACKS_HELPER_H
#define GUEST_ATTACKS_HELPER_H

/* Where the runner installs attacks: the kernel has no working directory. */
#define HELPER_DIR	"/tmp/redoubt-attack/"

/* To be called first: does not return if the kernel runs this program. */
void helper_main(void);

/* Hand over what the helper has stolen, which may take it some time. */
void helper_collect(void);

/* Get the kernel to run the helper that core_pattern names. */
void dump_core(void);

#endif /* GUEST_ATTACKS_HELPER_H */
