// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "guests.h"
#include "vcpu.h"
#include "vm.h"

/* All in real mode; how often is filled in. */
static const unsigned char exits_code[] = {
	0x66, 0xbe, 0, 0, 0, 0,		/* mov $0, %esi */
	0x0f, 0xa2,			/* cpuid */
	0x66, 0x4e,			/* dec %esi */
	0x75, 0xfa,			/* jnz to cpuid */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xf0,			/* jmp to the first */
};

static const unsigned char msr_code[] = {
	0x66, 0xbe, 0, 0, 0, 0,		/* mov $0, %esi */
	0x66, 0xb9, 0x1b, 0, 0, 0,	/* mov $0x1b, %ecx: where the APIC is */
	0x0f, 0x32,			/* rdmsr */
	0x66, 0x4e,			/* dec %esi */
	0x75, 0xfa,			/* jnz to rdmsr */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xea,			/* jmp to the first */
};

/* Sets up both chips, and sleeps until the timer interrupts. */
static const unsigned char halts_code[] = {
	0x66, 0xbe, 0, 0, 0, 0,		/* mov $0, %esi */
	0x31, 0xc0,			/* xor %ax, %ax */
	0x8e, 0xd8,			/* mov %ax, %ds */
	0xc7, 0x06, 0x20, 0, 0x51, 0,	/* vector 8: its offset, behind the code */
	0xc7, 0x06, 0x22, 0, 0xff, 0xff,	/* and its segment */
	0xb0, 0x11, 0xe6, 0x20,		/* interrupt controller: initialise, */
	0xb0, 0x08, 0xe6, 0x21,		/* vectors from 8 on, */
	0xb0, 0x04, 0xe6, 0x21,		/* with another behind line 2, */
	0xb0, 0x01, 0xe6, 0x21,		/* for a PC, */
	0xb0, 0xfe, 0xe6, 0x21,		/* line 0 only */
	0xb0, 0x34, 0xe6, 0x43,		/* timer: again and again, */
	0xb0, 0xa9, 0xe6, 0x40,		/* 1000 times */
	0xb0, 0x04, 0xe6, 0x40,		/* a second */
	0xfb,				/* sti */
	0xf4,				/* hlt */
	0x66, 0x4e,			/* dec %esi */
	0x75, 0xfa,			/* jnz to sti */
	0xfa,				/* cli */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xbf,			/* jmp to the first */
	0x50,				/* push %ax */
	0xb0, 0x20, 0xe6, 0x20,		/* end of interrupt */
	0x58,				/* pop %ax */
	0xcf,				/* iret */
};

#define NUMBER_AT	2

/* It does something so often before it leaves to user mode. */
static void run_times(const struct vm *vm, unsigned int times)
{
	memcpy(vm->memory + CODE + NUMBER_AT, &times, sizeof(times));
	vm_run(vm);
}

void guest_exits(unsigned int times)
{
	static struct vm vm;

	if (!vm.run)
		vm_create(&vm, exits_code, sizeof(exits_code));
	run_times(&vm, times);
}

void guest_reads_msrs(unsigned int times)
{
	static struct vm vm;

	if (!vm.run)
		vm_create(&vm, msr_code, sizeof(msr_code));
	run_times(&vm, times);
}

void guest_halts(unsigned int times)
{
	static struct vm vm;

	if (!vm.run)
		vm_create_pc(&vm, halts_code, sizeof(halts_code));
	run_times(&vm, times);
}

static const struct vm *writer(void)
{
	static struct vm vm;

	if (!vm.run)
		vm_create(&vm, vcpu_code, vcpu_code_size());
	return &vm;
}

void guest_leaves(unsigned int times)
{
	unsigned int i;

	for (i = 0; i < times; i++)
		vm_run(writer());
}

void guest_faults(unsigned int times)
{
	unsigned int i;

	for (i = 0; i < times; i++) {
		if (i % PAGES == 0)
			vm_take_memory(writer());
		vm_run(writer());
	}
}
