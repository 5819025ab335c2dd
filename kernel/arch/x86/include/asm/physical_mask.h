/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A physical address mask that is patched at boot. Included by
 * asm/page_types.h.
 */
#ifndef _ASM_X86_PHYSICAL_MASK_H
#define _ASM_X86_PHYSICAL_MASK_H

/*
 * The KeyID bits leave the mask once, before anything is mapped with a KeyID.
 * So the mask, which each step of a page table walk uses, is an immediate
 * operand that mktme_detect() patches. The variable is used where guests change
 * the mask, and in code that is not patched: modules, and code that runs at
 * other addresses.
 */
#if defined(CONFIG_X86_MKTME) && \
	!defined(CONFIG_AMD_MEM_ENCRYPT) && !defined(CONFIG_INTEL_TDX_GUEST) && \
	!defined(MODULE) && !defined(_SETUP) && !defined(__DISABLE_EXPORTS)

/* Unlike runtime_const_ptr(), it is valid before it is patched. */
#define __PHYSICAL_MASK ({						\
	phys_addr_t __mask;						\
									\
	asm_inline("movabs %1, %0\n1:\n"				\
		   ".pushsection runtime_ptr_physical_mask, \"a\"\n\t"	\
		   ".long 1b - %c2 - .\n"				\
		   ".popsection"					\
		   : "=r" (__mask)					\
		   : "i" ((1UL << __PHYSICAL_MASK_SHIFT) - 1),		\
		     "i" (sizeof(long)));				\
	__mask;								\
})

#else

#define __PHYSICAL_MASK		physical_mask

#endif

#endif /* _ASM_X86_PHYSICAL_MASK_H */
