/* SPDX-License-Identifier: GPL-2.0-only */
/* The pattern searched for in memory from outside: redoubt/trial/oracle/patterns.py. */
#ifndef GUEST_PATTERN_H
#define GUEST_PATTERN_H

#include "compiler.h"

#define PATTERN_PAGES	8
#define PATTERN_SIZE	(PATTERN_PAGES * 4096)
#define PATTERN_WORDS	(PATTERN_SIZE / sizeof(u64))

/* A word of a pattern: it comes of the seed, and is kept nowhere else. */
u64 pattern_word(u64 seed, unsigned int pattern, u64 n);

/* The same in disguise: no register ever holds the word itself. */
u64 pattern_word_masked(u64 seed, unsigned int pattern, u64 n, u64 mask);

#endif /* GUEST_PATTERN_H */
