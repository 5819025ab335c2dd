/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A physical mask that is known when the kernel has started. Included by
 * asm/page_types.h.
 */
#ifndef _ASM_X86_PHYSICAL_MASK_H
#define _ASM_X86_PHYSICAL_MASK_H

/*
 * Bits of KeyIDs leave the mask once, before anything is mapped under one. So it
 * is a constant of the code, which is in each step of a walk of page tables, and
 * mktme_detect() overwrites it. Guests change the mask elsewhere; modules, and
 * what runs at other addresses, are not overwritten.
 */
#if defined(CONFIG_X86_MKTME) && \
	!defined(CONFIG_AMD_MEM_ENCRYPT) && !defined(CONFIG_INTEL_TDX_GUEST) && \
	!defined(MODULE) && !defined(_SETUP) && !defined(__DISABLE_EXPORTS)

/* Unlike runtime_const_ptr(), with a value that is right until then. */
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
