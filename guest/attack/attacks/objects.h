/* SPDX-License-Identifier: GPL-2.0-only */
/* The driver's use-after-free. */
#ifndef GUEST_ATTACKS_OBJECTS_H
#define GUEST_ATTACKS_OBJECTS_H

#include "tables.h"

/* @objects of them, each of so many pages. */
struct window objects_window(unsigned int objects, unsigned int order);
void objects_free_in_use(void);

#endif /* GUEST_ATTACKS_OBJECTS_H */
