/* SPDX-License-Identifier: GPL-2.0-only */
/* Register values for kpkeys, also used by assembler code. */
#ifndef __ASM_KPKEYS_REGS_H
#define __ASM_KPKEYS_REGS_H

#include <asm/sysreg.h>

#define ARM64_PKEY_PGTABLES	1
#define ARM64_PKEY_LEDGER	2	/* written at every raised level */
#define ARM64_PKEY_STATE	3
#define ARM64_PKEY_MAX		3

/*
 * POR_EL1: four bits for each key. Unused keys allow nothing. A value fits in
 * one MOV, which kpkeys_restart_lowering() knows.
 */
#define POR_EL1(pgtables, ledger, state)				\
	(POR_ELx_PERM_PREP(0, POE_RWX) |				\
	 POR_ELx_PERM_PREP(ARM64_PKEY_PGTABLES, pgtables) |		\
	 POR_ELx_PERM_PREP(ARM64_PKEY_LEDGER, ledger) |			\
	 POR_ELx_PERM_PREP(ARM64_PKEY_STATE, state))

#define POR_EL1_DEFAULT		POR_EL1(POE_R, POE_R, POE_R)
#define POR_EL1_PGTABLES	POR_EL1(POE_RW, POE_RW, POE_R)
#define POR_EL1_STATE		POR_EL1(POE_R, POE_RW, POE_RW)

/* One bit that each raised level has set, and the default has not. */
#define POR_EL1_RAISED		POR_ELx_PERM_PREP(ARM64_PKEY_LEDGER, POE_W)

#endif /* __ASM_KPKEYS_REGS_H */
