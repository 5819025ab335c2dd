// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU at EL1 with its MMU off, which leaves the guest by a store to where it
 * has no memory. It reads each page before it writes, so that KVM maps the page
 * of zeroes first. In between it writes to the registers of its overlays, in
 * turns that everything is permitted and that nothing is: the guest must find
 * them so when it is back, and the host, its kernel as well, must have its own.
 */
#include <errno.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fail.h"
#include "por.h"
#include "vcpu.h"
#include "vm.h"

#define STRING(x)	STRING_OF(x)
#define STRING_OF(x)	#x

#define NO_MEMORY	0x10000000
/* Behind it: what a register had that is not what was written, and ESR_EL1. */
#define LOST		8
#define EXCEPTION	16

/* ID_AA64MMFR3_EL1, POR_EL1 and POR_EL0 have no names in older assemblers. */
asm(
"	.pushsection .rodata\n"
"	.balign	4\n"
"	.globl	vcpu_code, vcpu_code_end\n"
"vcpu_code:\n"
"	adr	x4, 4f\n"
"	msr	vbar_el1, x4\n"
"	isb\n"
"	mrs	x3, s3_0_c0_c7_3\n"
"	ubfx	x3, x3, #16, #4\n"	/* S1POE */
"1:	cbz	x3, 2f\n"
"	eor	x2, x2, #0x7777777777777777\n"
"	msr	s3_0_c10_c2_4, x2\n"
"	msr	s3_3_c10_c2_4, x2\n"
"2:	lsl	x4, x0, #12\n"
"	ldrb	w5, [x4]\n"
"	strb	w0, [x4]\n"
"	add	w0, w0, #1\n"
"	and	w0, w0, #0xff\n"
"	str	w3, [x1]\n"		/* leaves the guest */
"	cbz	x3, 2b\n"
"	mrs	x4, s3_0_c10_c2_4\n"
"	mrs	x5, s3_3_c10_c2_4\n"
"	cmp	x4, x2\n"
"	csel	x4, x5, x4, eq\n"
"	cmp	x4, x2\n"
"	b.eq	1b\n"
"	str	x4, [x1, #8]\n"
"3:	.space	0x800 - (3b - vcpu_code)\n"
"4:	.space	0x200\n"		/* vectors; the one of EL1 itself */
"	mrs	x4, esr_el1\n"
"	str	x4, [x1, #16]\n"
"vcpu_code_end:\n"
"	.globl	vcpu_mark_code, vcpu_mark_code_end\n"
"vcpu_mark_code:\n"
"	mov	w2, #" STRING(MARK) "\n"
"1:	lsl	x4, x0, #12\n"
"	str	w2, [x4]\n"
"	add	w0, w0, #1\n"
"	str	w2, [x1]\n"		/* leaves the guest */
"	b	1b\n"
"vcpu_mark_code_end:\n"
"	.popsection\n"
);

/*
 * Global as well: the address of a local label comes from a table, for which
 * binutils take it to be that of the first byte of the section.
 */
extern const unsigned char vcpu_code_end[], vcpu_mark_code_end[];

size_t vcpu_mark_code_size(void)
{
	return vcpu_mark_code_end - vcpu_mark_code;
}

size_t vcpu_code_size(void)
{
	return vcpu_code_end - vcpu_code;
}

void vcpu_create_chips(int vm)
{
	(void)vm;
	errno = ENOSYS;
	fail("a timer for the guest");
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
	return vcpu;
}

bool vcpu_left(const struct kvm_run *run)
{
	u64 stored;

	if (run->exit_reason != KVM_EXIT_MMIO || !run->mmio.is_write)
		return false;
	memcpy(&stored, run->mmio.data, sizeof(stored));
	if (run->mmio.phys_addr == NO_MEMORY + LOST)
		fail("the guest's overlays became %#llx", (unsigned long long)stored);
	if (run->mmio.phys_addr == NO_MEMORY + EXCEPTION)
		fail("the guest took an exception, ESR_EL1 %#llx", (unsigned long long)stored);
	if (por_exists() && !run->mmio.data[0])
		fail("the guest has no overlays");
	if (por_exists() && por_read() != POR_INITIAL)
		fail("the guest has left %#llx in POR_EL0", (unsigned long long)por_read());
	return run->mmio.phys_addr == NO_MEMORY;
}
