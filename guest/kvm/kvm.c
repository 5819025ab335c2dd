// SPDX-License-Identifier: GPL-2.0-only
/*
 * kvm RUNS: a guest of KVM that leaves so often, and writes to its memory.
 *
 * It writes the number of each of 256 pages into it, one after the other, and
 * leaves in between. Every 256 runs the memory is given back under it, and must
 * be mapped for it anew.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fail.h"
#include "kmsg.h"
#include "vcpu.h"
#include "vm.h"

/* Before it is given back: all pages must have been written to. */
static void look(const struct vm *vm)
{
	int i;

	for (i = 0; i < PAGES; i++) {
		if (vm->memory[i * PAGE] != i)
			fail("page %d has %d", i, vm->memory[i * PAGE]);
	}
	vm_take_memory(vm);
}

int main(int argc, char *argv[])
{
	int runs = argc == 2 ? atoi(argv[1]) : 0, i;
	struct vm vm;

	if (runs <= 0) {
		fprintf(stderr, "usage: kvm RUNS\n");
		return 2;
	}
	vm_create(&vm, vcpu_code, vcpu_code_size());
	for (i = 1; i <= runs; i++) {
		vm_run(&vm);
		if (i % PAGES == 0)
			look(&vm);
	}
	/* The kernel, which goes on to its tests, must not write into the line. */
	if (!kmsg("@kvm: runs=%d\n", runs))
		fail("/dev/kmsg");
	return 0;
}
