/* SPDX-License-Identifier: GPL-2.0-only */
/* Is this CPU as fast as it can be, or does somebody else use its core? */
#ifndef GUEST_QUIET_H
#define GUEST_QUIET_H

#include <stdbool.h>

#include "compiler.h"

void quiet_start(u64 best);
bool quiet_wait(void);
bool quiet_still(void);
u64 quiet_best(void);

#endif /* GUEST_QUIET_H */
