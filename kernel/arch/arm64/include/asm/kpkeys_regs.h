/* SPDX-License-Identifier: GPL-2.0-only */
/* Register values for kpkeys, also used by assembler code. */
#ifndef __ASM_KPKEYS_REGS_H
#define __ASM_KPKEYS_REGS_H

#include <asm/sysreg.h>

#define ARM64_PKEY_PGTABLES	1
#define ARM64_PKEY_LEDGER	2	/* written at every raised level */
#define ARM64_PKEY_STATE	3
#define ARM64_PKEY_CRED		4
#define ARM64_PKEY_SECRET	5	/* not even read by default */
#define ARM64_PKEY_MAX		5

/*
 * POR_EL1: four bits for each key. Unused keys allow nothing. A value fits in
 * the lower half of a register, which arm64_write_por_el1() expects.
 */
#define POR_EL1(pgtables, ledger, state, cred, secret)			\
	(POR_ELx_PERM_PREP(0, POE_RWX) |				\
	 POR_ELx_PERM_PREP(ARM64_PKEY_PGTABLES, pgtables) |		\
	 POR_ELx_PERM_PREP(ARM64_PKEY_LEDGER, ledger) |			\
	 POR_ELx_PERM_PREP(ARM64_PKEY_STATE, state) |			\
	 POR_ELx_PERM_PREP(ARM64_PKEY_CRED, cred) |			\
	 POR_ELx_PERM_PREP(ARM64_PKEY_SECRET, secret))

#define POR_EL1_DEFAULT		POR_EL1(POE_R, POE_R, POE_R, POE_R, POE_NONE)
#define POR_EL1_PGTABLES	POR_EL1(POE_RW, POE_RW, POE_R, POE_R, POE_NONE)
#define POR_EL1_STATE		POR_EL1(POE_R, POE_RW, POE_RW, POE_R, POE_NONE)
#define POR_EL1_CRED		POR_EL1(POE_R, POE_RW, POE_R, POE_RW, POE_NONE)
#define POR_EL1_SECRET		POR_EL1(POE_R, POE_RW, POE_R, POE_R, POE_RW)

/* One bit that each raised level has set, and the default has not. */
#define POR_EL1_RAISED		POR_ELx_PERM_PREP(ARM64_PKEY_LEDGER, POE_W)

#endif /* __ASM_KPKEYS_REGS_H */
