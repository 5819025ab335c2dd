/* SPDX-License-Identifier: GPL-2.0-only */
/* The work of the first process of any machine. */
#ifndef GUEST_FIRST_H
#define GUEST_FIRST_H

#include <sys/types.h>

#define EXIT_SETUP	125	/* the machine could not be set up */

void open_console(void);
int wait_for(pid_t pid);

#endif /* GUEST_FIRST_H */
