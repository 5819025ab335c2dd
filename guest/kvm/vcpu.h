/* SPDX-License-Identifier: GPL-2.0-only */
/* The CPU of a guest of KVM, and the code that it runs, by architecture. */
#ifndef GUEST_VCPU_H
#define GUEST_VCPU_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>

#define PAGE		4096
#define PAGES		256
/* Behind them, so that it never writes there. */
#define CODE		(PAGES * PAGE)

/*
 * The code writes the number of each page into it, one after the other and over
 * and over again, and leaves the guest behind each.
 */
extern const unsigned char vcpu_code[];
size_t vcpu_code_size(void);

/* The same, but it writes a MARK of 4 bytes, and reads nothing before. */
extern const unsigned char vcpu_mark_code[];
size_t vcpu_mark_code_size(void);
#define MARK	1000

/* Where code of x86 leaves the guest by "out". */
#define PORT		0x10

/* What interrupts it, to be created before it. */
void vcpu_create_chips(int vm);

/* A new CPU of a guest that starts with its code at CODE. */
int vcpu_create(int vm);

/* Did it leave the guest as its code does? */
bool vcpu_left(const struct kvm_run *run);

#endif /* GUEST_VCPU_H */
