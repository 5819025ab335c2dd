// SPDX-License-Identifier: GPL-2.0-only
#include <string.h>

#include "guests.h"
#include "vcpu.h"
#include "vm.h"

/* In real mode; the number is filled in. */
static unsigned char exits_code[] = {
	0x66, 0xbe, 0, 0, 0, 0,		/* mov $0, %esi */
	0x0f, 0xa2,			/* cpuid */
	0x66, 0x4e,			/* dec %esi */
	0x75, 0xfa,			/* jnz to cpuid */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xf0,			/* jmp to the first */
};

#define NUMBER_AT	2

void guest_exits(unsigned int times)
{
	static struct vm vm;

	if (!vm.run)
		vm_create(&vm, exits_code, sizeof(exits_code));
	memcpy(vm.memory + CODE + NUMBER_AT, &times, sizeof(times));
	vm_run(&vm);
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
