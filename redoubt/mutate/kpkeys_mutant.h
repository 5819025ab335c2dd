/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernels without one place that lets page tables be written, all of them in one
 * build: which one is missing is a number, and so one object. For redoubt
 * mutate, which puts this file and what it defines where the places are.
 */
#ifndef _LINUX_KPKEYS_MUTANT_H
#define _LINUX_KPKEYS_MUTANT_H

#if !defined(__ASSEMBLER__) && defined(CONFIG_KPKEYS_HARDENED_PGTABLES)

/* The place that is missing, counted from one; none if zero. */
extern const int kpkeys_mutant;

/* Is it this one? Those that are compiled are told in .comment of vmlinux and modules. */
#define KPKEYS_MUTANT(nr) ({						\
	asm_inline volatile(".ident \"kpkeys mutant " #nr "\"");	\
	kpkeys_mutant == (nr);						\
})

#else

#define KPKEYS_MUTANT(nr)	false

#endif

#ifdef __ASSEMBLER__
#include <linux/stringify.h>

/* An instruction, unless it is missing: a number that only the assembler knows. */
#define KPKEYS_MUTANT_INSN(nr, insn...)					\
	.ident __stringify(kpkeys mutant nr);				\
	.if KPKEYS_MUTANT_MISSING != nr;				\
	insn;								\
	.endif
#endif

/* A call, unless it is missing. */
#define KPKEYS_MUTANT_CALL(nr, call...) ({				\
	if (!KPKEYS_MUTANT(nr))						\
		call;							\
})

/* As CLASS(). -1 is what a guard has nothing to undo for; the end of any other level is harmless. */
#define KPKEYS_MUTANT_CLASS(nr, name, var)				\
	class_##name##_t var __cleanup(class_##name##_destructor) =	\
		KPKEYS_MUTANT(nr) ? (class_##name##_t)-1 :		\
				    class_##name##_constructor

/* As scoped_class(). */
#define KPKEYS_MUTANT_SCOPE(nr, name, var, args...)			\
	__KPKEYS_MUTANT_SCOPE(nr, name, var, __UNIQUE_ID(label), args)

#define __KPKEYS_MUTANT_SCOPE(nr, name, var, label, args...)		\
	for (KPKEYS_MUTANT_CLASS(nr, name, var)(args); ; ({ goto label; })) \
		if (0) {						\
label:									\
			break;						\
		} else

#endif /* _LINUX_KPKEYS_MUTANT_H */
