/* SPDX-License-Identifier: GPL-2.0-only */
/* What a first process owes to the others. */
#ifndef GUEST_REAP_H
#define GUEST_REAP_H

#include <sys/types.h>

#define EXIT_SETUP	125	/* the machine could not be set up */

int wait_for(pid_t pid);

#endif /* GUEST_REAP_H */
