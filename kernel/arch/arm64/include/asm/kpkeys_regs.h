/* SPDX-License-Identifier: GPL-2.0-only */
/* Register values for kpkeys, also used by assembler code. */
#ifndef __ASM_KPKEYS_REGS_H
#define __ASM_KPKEYS_REGS_H

#include <asm/sysreg.h>

#define ARM64_PKEY_PGTABLES	1
#define ARM64_PKEY_MAX		1

/* POR_EL1: four bits for each key. Unused keys allow nothing. */
#define POR_EL1_DEFAULT		(POR_ELx_PERM_PREP(0, POE_RWX) |	\
				 POR_ELx_PERM_PREP(ARM64_PKEY_PGTABLES, POE_R))
#define POR_EL1_PGTABLES	(POR_ELx_PERM_PREP(0, POE_RWX) |	\
				 POR_ELx_PERM_PREP(ARM64_PKEY_PGTABLES, POE_RW))

#endif /* __ASM_KPKEYS_REGS_H */
