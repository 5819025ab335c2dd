/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pointer authentication keys that only the code which loads them reads. See
 * Documentation/security/kpkeys-secret.rst.
 */
#ifndef __ASM_KPKEYS_PTRAUTH_H
#define __ASM_KPKEYS_PTRAUTH_H

/* Offsets in struct arm64_ptrauth_cpu. */
#define PTRAUTH_CPU_KERNEL	0
#define PTRAUTH_CPU_USER	16

#ifdef __ASSEMBLER__

#include <asm/alternative.h>
#include <asm/assembler.h>
#include <asm/kpkeys_regs.h>
#include <asm/sysreg.h>

#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
	.macro	kpkeys_write_level por, tmp
	movz	\tmp, #((\por) & 0xffff)
	movk	\tmp, #((\por) >> 16), lsl #16
	msr_s	SYS_POR_EL1, \tmp
	isb
	.endm
#endif

	/*
	 * If keys are secret, install one of the current task as APIA, and go to
	 * @done. Not if user space has disabled it, by @sctlr, if that is given.
	 * Enable it if user space had it disabled, if @enable is given: what
	 * memory says of that may be forged. Exceptions are masked.
	 */
	.macro	ptrauth_install_secret offset, done, tmp1, tmp2, tmp3, sctlr, enable
#ifdef CONFIG_KPKEYS_HARDENED_PTRAUTH
alternative_cb	ARM64_ALWAYS_SYSTEM, arm64_ptrauth_patch_secret
	b	.Lin_task_\@
alternative_cb_end
	.ifnb	\sctlr
	tbz	\sctlr, SCTLR_ELx_ENIA_SHIFT, .Lin_task_\@
	.endif
	kpkeys_write_level POR_EL1_SECRET, \tmp1
	adr_this_cpu \tmp1, arm64_ptrauth_cpu, \tmp2
	ldp	\tmp2, \tmp3, [\tmp1, #\offset]
	msr_s	SYS_APIAKEYLO_EL1, \tmp2
	msr_s	SYS_APIAKEYHI_EL1, \tmp3
	/* An exception would save them in ordinary memory. */
	mov	\tmp2, xzr
	mov	\tmp3, xzr
	kpkeys_write_level POR_EL1_DEFAULT, \tmp1
	.ifnb	\enable
	mrs	\tmp1, sctlr_el1
	tbnz	\tmp1, SCTLR_ELx_ENIA_SHIFT, \done
	orr	\tmp1, \tmp1, SCTLR_ELx_ENIA
	msr	sctlr_el1, \tmp1
	.endif
	b	\done
.Lin_task_\@:
#endif
	.endm

#else /* !__ASSEMBLER__ */

#include <linux/kpkeys.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include <asm/page.h>

struct alt_instr;
struct ptrauth_keys_user;
struct task_struct;

/**
 * struct arm64_ptrauth_cpu - what a CPU loads at the border of user space. Secret.
 * @kernel: the key of the current task for the kernel.
 * @user: that for user space, in the same registers.
 *
 * A register says where a CPU has it, so that no pointer to it can be forged.
 */
struct arm64_ptrauth_cpu {
	unsigned long kernel[2];
	unsigned long user[2];
} __aligned(PAGE_SIZE);

DECLARE_PER_CPU_PAGE_ALIGNED(struct arm64_ptrauth_cpu, arm64_ptrauth_cpu);

void arm64_ptrauth_patch_secret(struct alt_instr *alt, __le32 *origptr, __le32 *updptr,
				int nr_inst);

int arm64_ptrauth_alloc(struct task_struct *task);
void arm64_ptrauth_free(struct task_struct *task);
void arm64_ptrauth_switch(struct task_struct *next);
void arm64_ptrauth_cpu_up(unsigned int cpu, struct task_struct *idle);
struct ptrauth_keys_user *arm64_ptrauth_read(struct task_struct *task,
					     struct ptrauth_keys_user *copy);
void arm64_ptrauth_write(struct task_struct *task, const struct ptrauth_keys_user *copy);

#endif /* !__ASSEMBLER__ */

#endif /* __ASM_KPKEYS_PTRAUTH_H */
