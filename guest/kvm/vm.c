// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "fail.h"
#include "vcpu.h"
#include "vm.h"

int ask(int fd, unsigned long request, void *argument)
{
	int ret = ioctl(fd, request, argument);

	if (ret < 0)
		fail("ioctl %#lx", request);
	return ret;
}

static void create(struct vm *vm, const unsigned char *code, size_t size,
		   bool chips)
{
	struct kvm_userspace_memory_region region = { .memory_size = CODE + PAGE };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), fd;

	if (kvm < 0)
		fail("/dev/kvm");
	fd = ask(kvm, KVM_CREATE_VM, NULL);
	vm->memory = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (vm->memory == MAP_FAILED)
		fail("mmap");
	memcpy(vm->memory + CODE, code, size);
	region.userspace_addr = (unsigned long)vm->memory;
	ask(fd, KVM_SET_USER_MEMORY_REGION, &region);
	if (chips)
		vcpu_create_chips(fd);
	vm->vcpu = vcpu_create(fd);
	vm->run = mmap(NULL, ask(kvm, KVM_GET_VCPU_MMAP_SIZE, NULL),
		       PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu, 0);
	if (vm->run == MAP_FAILED)
		fail("mmap of the CPU");
}

void vm_create(struct vm *vm, const unsigned char *code, size_t size)
{
	create(vm, code, size, false);
}

void vm_create_pc(struct vm *vm, const unsigned char *code, size_t size)
{
	create(vm, code, size, true);
}

void vm_run(const struct vm *vm)
{
	ask(vm->vcpu, KVM_RUN, NULL);
	if (!vcpu_left(vm->run))
		fail("a run ended for reason %u", vm->run->exit_reason);
}

void vm_take_memory(const struct vm *vm)
{
	if (madvise(vm->memory, CODE, MADV_DONTNEED))
		fail("madvise");
}
