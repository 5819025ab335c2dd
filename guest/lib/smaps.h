/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef GUEST_SMAPS_H
#define GUEST_SMAPS_H

#include <stddef.h>

/*
 * The value of that name in smaps, in kB, summed over the mappings of this
 * process that a range touches. ~0 if the kernel does not say.
 */
unsigned long smaps_kb(const char *m, size_t size, const char *name);

#endif /* GUEST_SMAPS_H */
