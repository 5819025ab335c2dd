/* SPDX-License-Identifier: GPL-2.0-only */
/* Guests of KVM whose one CPU is to be stopped from outside. */
#ifndef GUEST_VCPUS_H
#define GUEST_VCPUS_H

#include <stdnoreturn.h>

#include "compiler.h"

struct vm;

/* Where the CPU of a process can be when the machine is stopped. */
enum place {
	IN_USER_MODE,
	IN_GUEST,
	IN_EXIT,
	PLACES
};

extern const char *const place_names[PLACES];

/* Let all users have guests; find where KVM handles an exit. Needs to be root. */
void vcpus_prepare(void);

/* Create a guest that leaves to user mode after it has left to the kernel. */
void vcpus_create(struct vm *vm);

/*
 * Say that the guest spins, or that it leaves to the kernel without end, and let
 * it. Its CPU has the low half of @magic in EDI.
 */
noreturn void vcpus_run(enum place place, u64 magic);

#endif /* GUEST_VCPUS_H */
