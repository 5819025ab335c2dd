// SPDX-License-Identifier: GPL-2.0-only
/*
 * kvm RUNS: a guest of KVM that leaves so often, and writes to its memory.
 *
 * It writes the number of each of 256 pages into it, one after the other, and
 * leaves in between. Every 256 runs the memory is given back under it, and must
 * be mapped for it anew.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "fail.h"
#include "kmsg.h"
#include "vcpu.h"

int ask(int fd, unsigned long request, void *argument)
{
	int ret = ioctl(fd, request, argument);

	if (ret < 0)
		fail("ioctl %#lx", request);
	return ret;
}

/* Before it is given back: all pages must have been written to. */
static void look(unsigned char *memory)
{
	int i;

	for (i = 0; i < PAGES; i++) {
		if (memory[i * PAGE] != i)
			fail("page %d has %d", i, memory[i * PAGE]);
	}
	if (madvise(memory, CODE, MADV_DONTNEED))
		fail("madvise");
}

int main(int argc, char *argv[])
{
	struct kvm_userspace_memory_region region = { .memory_size = CODE + PAGE };
	int runs = argc == 2 ? atoi(argv[1]) : 0, i, kvm, vm, vcpu;
	unsigned char *memory;
	struct kvm_run *run;

	if (runs <= 0) {
		fprintf(stderr, "usage: kvm RUNS\n");
		return 2;
	}
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fail("/dev/kvm");
	vm = ask(kvm, KVM_CREATE_VM, NULL);
	memory = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	memcpy(memory + CODE, vcpu_code, vcpu_code_size());
	region.userspace_addr = (unsigned long)memory;
	ask(vm, KVM_SET_USER_MEMORY_REGION, &region);
	vcpu = vcpu_create(vm);
	run = mmap(NULL, ask(kvm, KVM_GET_VCPU_MMAP_SIZE, NULL),
		   PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		fail("mmap of the CPU");

	for (i = 1; i <= runs; i++) {
		ask(vcpu, KVM_RUN, NULL);
		if (!vcpu_left(run))
			fail("run %d ended for reason %u", i, run->exit_reason);
		if (i % PAGES == 0)
			look(memory);
	}
	/* The kernel, which goes on to its tests, must not write into the line. */
	if (!kmsg("@kvm: runs=%d\n", runs))
		fail("/dev/kmsg");
	return 0;
}
