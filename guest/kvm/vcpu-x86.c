// SPDX-License-Identifier: GPL-2.0-only
/* A CPU in real mode, which leaves the guest by an I/O instruction. */
#include <sys/ioctl.h>

#include "vcpu.h"
#include "vm.h"

const unsigned char vcpu_code[] = {
	0x8e, 0xd8,			/* mov %ax, %ds */
	0x88, 0x26, 0x00, 0x00,		/* mov %ah, 0 */
	0x05, 0x00, 0x01,		/* add $0x100, %ax */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xf3,			/* jmp to the first */
};

const unsigned char vcpu_mark_code[] = {
	0x8e, 0xd8,			/* mov %ax, %ds */
	0x66, 0xc7, 0x06, 0x00, 0x00,	/* movl $MARK, 0 */
	MARK & 0xff, MARK >> 8, 0, 0,
	0x05, 0x00, 0x01,		/* add $0x100, %ax */
	0xe6, PORT,			/* out %al, $PORT */
	0xeb, 0xee,			/* jmp to the first */
};

size_t vcpu_mark_code_size(void)
{
	return sizeof(vcpu_mark_code);
}

size_t vcpu_code_size(void)
{
	return sizeof(vcpu_code);
}

void vcpu_create_chips(int vm)
{
	struct kvm_pit_config pit = { };

	ask(vm, KVM_CREATE_IRQCHIP, NULL);
	ask(vm, KVM_CREATE_PIT2, &pit);
}

/* The segment that its code can return to from an interrupt, and where that is. */
#define SEGMENT		0xffff
#define OFFSET		(CODE - (SEGMENT << 4))

int vcpu_create(int vm)
{
	struct kvm_regs regs = { .rip = OFFSET, .rsp = 4 * PAGE, .rflags = 2 };
	int vcpu = ask(vm, KVM_CREATE_VCPU, NULL);
	struct kvm_sregs sregs;

	ask(vcpu, KVM_GET_SREGS, &sregs);
	sregs.cs.selector = SEGMENT;
	sregs.cs.base = SEGMENT << 4;
	ask(vcpu, KVM_SET_SREGS, &sregs);
	ask(vcpu, KVM_SET_REGS, &regs);
	return vcpu;
}

bool vcpu_left(const struct kvm_run *run)
{
	return run->exit_reason == KVM_EXIT_IO && run->io.port == PORT;
}
