// SPDX-License-Identifier: GPL-2.0-only
/*
 * Patterns that nothing in memory looks like but themselves.
 */
#include "pattern.h"

/*
 * SplitMix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014, which gives the n-th word without those before it.
 */
u64 pattern_word_masked(u64 seed, unsigned int pattern, u64 n, u64 mask)
{
	u64 x = seed + (pattern * PATTERN_WORDS + n + 1) * 0x9e3779b97f4a7c15;
	u64 upper;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	upper = x >> 31;
	x ^= mask;
	/* The compiler must not mask the sum. */
	asm("" : "+r" (x));
	return x ^ upper;
}

u64 pattern_word(u64 seed, unsigned int pattern, u64 n)
{
	return pattern_word_masked(seed, pattern, n, 0);
}
