/* SPDX-License-Identifier: GPL-2.0-only */
/* Guests of KVM: each does something so many times, and is made when it first does. */
#ifndef GUEST_GUESTS_H
#define GUEST_GUESTS_H

/* Exits that the kernel handles. */
void guest_exits(unsigned int times);

void guest_reads_msrs(unsigned int times);

/* It halts until its timer interrupts, which the kernel emulates. */
void guest_halts(unsigned int times);

/* Exits to user mode. */
void guest_leaves(unsigned int times);

/* The same, and in between a page of its memory is not there. */
void guest_faults(unsigned int times);

#endif /* GUEST_GUESTS_H */
