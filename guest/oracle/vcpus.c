// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "vcpu.h"
#include "vcpus.h"
#include "vm.h"

const char *const place_names[PLACES] = { "user", "guest", "exit" };

/* In real mode. */
static const unsigned char leaves_twice[] = {
	0x0f, 0xa2,			/* cpuid */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xfa,			/* jmp to the first */
};

static const unsigned char writes_and_spins[] = {
	0x88, 0x26, 0x00, 0x00,		/* mov %ah, 0 */
	0xeb, 0xfe,			/* jmp to itself */
};

static const unsigned char leaves_always[] = {
	0x0f, 0xa2,			/* cpuid */
	0xeb, 0xfc,			/* jmp to it */
};

/* Functions that run for a guest only. */
static struct {
	const char *name;
	unsigned long start, end;
} handlers[] = {
	{ .name = "svm_vcpu_run" },
	{ .name = "svm_handle_exit" },
	{ .name = "kvm_emulate_cpuid" },
	{ .name = "kvm_cpuid" },
	{ .name = "kvm_arch_vcpu_ioctl_run" },
};

static void find_handlers(void)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	unsigned long addr;
	char name[128];
	size_t i;

	if (!symbols)
		fail("/proc/kallsyms");
	/* Sorted by address, so that the next one is the end. */
	while (fscanf(symbols, "%lx %*c %127s%*[^\n]", &addr, name) == 2) {
		for (i = 0; i < ARRAY_SIZE(handlers); i++) {
			if (!strcmp(name, handlers[i].name))
				handlers[i].start = addr;
			else if (handlers[i].start && !handlers[i].end &&
				 addr > handlers[i].start)
				handlers[i].end = addr;
		}
	}
	fclose(symbols);
}

void vcpus_prepare(void)
{
	if (chmod("/dev/kvm", 0666))
		fail("/dev/kvm");
	find_handlers();
}

void vcpus_create(struct vm *vm)
{
	vm_create(vm, leaves_twice, sizeof(leaves_twice));
}

/*
 * Have the kernel copy the page that the guest writes to. Without windows it
 * leaves the restricted address space for that, on its way back to the guest.
 */
static void share_first_page(const struct vm *vm)
{
	pid_t pid;

	*(volatile unsigned char *)vm->memory = 1;
	pid = fork();
	if (pid < 0)
		fail("fork");
	while (!pid)
		pause();
}

static void say_where(enum place place)
{
	size_t i;

	printf("@oracle: %s", place_names[place]);
	for (i = 0; place == IN_EXIT && i < ARRAY_SIZE(handlers); i++)
		if (handlers[i].end)
			printf(" %#lx-%#lx", handlers[i].start, handlers[i].end);
	printf("\n");
	fflush(stdout);
}

noreturn void vcpus_run(enum place place, u64 magic)
{
	struct kvm_regs regs;
	struct vm vm;

	if (place == IN_GUEST) {
		vm_create(&vm, writes_and_spins, sizeof(writes_and_spins));
		share_first_page(&vm);
	} else {
		vm_create(&vm, leaves_always, sizeof(leaves_always));
	}
	ask(vm.vcpu, KVM_GET_REGS, &regs);
	regs.rdi = (unsigned int)magic;
	ask(vm.vcpu, KVM_SET_REGS, &regs);
	say_where(place);
	vm_run(&vm);
	fprintf(stderr, "the guest has ended\n");
	exit(1);
}
