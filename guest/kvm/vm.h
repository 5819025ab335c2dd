/* SPDX-License-Identifier: GPL-2.0-only */
/* A guest of KVM with one CPU. */
#ifndef GUEST_VM_H
#define GUEST_VM_H

#include <linux/kvm.h>
#include <stddef.h>

struct vm {
	unsigned char *memory;
	struct kvm_run *run;
	int vcpu;
};

/* As ioctl(), but ends the program with a message if it fails. */
int ask(int fd, unsigned long request, void *argument);

/* Create one, with memory of PAGES, and behind it a page with this code. */
void vm_create(struct vm *vm, const unsigned char *code, size_t size);

/* The same with the chips of a PC, which the kernel emulates: a timer as well. */
void vm_create_pc(struct vm *vm, const unsigned char *code, size_t size);

/* Run it until it leaves as its code does. */
void vm_run(const struct vm *vm);

/* Give all of its memory back, so that each page faults again. */
void vm_take_memory(const struct vm *vm);

#endif /* GUEST_VM_H */
