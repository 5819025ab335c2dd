// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU at EL1 with its MMU off, which leaves the guest by a store to where it
 * has no memory. In between it writes to POR_EL1, if it has it, in turns that
 * nothing is permitted and that everything is: the host must get its own back.
 */
#include <linux/kvm.h>
#include <stddef.h>
#include <sys/ioctl.h>

#include "por.h"
#include "vcpu.h"

#define NO_MEMORY	0x10000000
#define EVERYTHING	0x7777777777777777

asm(
"	.pushsection .rodata\n"
"	.balign	4\n"
"	.globl	vcpu_code\n"
"vcpu_code:\n"
"	cbz	x3, 1f\n"
"	msr	s3_0_c10_c2_4, x2\n"
"	eor	x2, x2, x3\n"
"1:	lsl	x4, x0, #12\n"
"	strb	w0, [x4]\n"
"	add	w0, w0, #1\n"
"	and	w0, w0, #0xff\n"
"	str	w0, [x1]\n"
"	b	vcpu_code\n"
"vcpu_code_end:\n"
"	.popsection\n"
);

extern const unsigned char vcpu_code_end[];

size_t vcpu_code_size(void)
{
	return vcpu_code_end - vcpu_code;
}

#define CORE(reg)	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | \
			 KVM_REG_ARM_CORE_REG(reg))

static void set(int vcpu, u64 id, u64 value)
{
	struct kvm_one_reg reg = { .id = id, .addr = (unsigned long)&value };

	ask(vcpu, KVM_SET_ONE_REG, &reg);
}

int vcpu_create(int vm)
{
	int vcpu = ask(vm, KVM_CREATE_VCPU, NULL);
	struct kvm_vcpu_init init;

	ask(vm, KVM_ARM_PREFERRED_TARGET, &init);
	ask(vcpu, KVM_ARM_VCPU_INIT, &init);
	set(vcpu, CORE(regs.pc), CODE);
	set(vcpu, CORE(regs.regs[1]), NO_MEMORY);
	set(vcpu, CORE(regs.regs[3]), por_exists() ? EVERYTHING : 0);
	return vcpu;
}

bool vcpu_left(const struct kvm_run *run)
{
	return run->exit_reason == KVM_EXIT_MMIO && run->mmio.phys_addr == NO_MEMORY;
}
