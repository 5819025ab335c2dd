/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host CPU's user protection keys (PKU), as UML applies them to itself.
 * Shared by kernel code and by code that is built against the host's libc.
 *
 * The host numbers the keys. The first pkey_alloc() of a process returns 1, and
 * so on; requiring that makes each value of the register a constant. All other
 * keys stay as the host sets them up (no access).
 */
#ifndef __SYSDEP_X86_PKEY_H
#define __SYSDEP_X86_PKEY_H

#define UM_PKEY_PGTABLES	1
#define UM_PKEY_LEDGER		2	/* written at every raised level */
#define UM_PKEY_STATE		3
#define UM_PKEY_CRED		4
#define UM_PKEY_SECRET		5	/* not even read by default */
#define UM_PKEY_MAX		5

/*
 * PKRU: two bits per key, access-disable below write-disable. The default is
 * write-disable for keys in use, and access-disable for secrets.
 */
#define UM_PKRU_DEFAULT		0x555556a8U
#define UM_PKRU_PGTABLES	0x55555680U	/* page tables: read-write */
#define UM_PKRU_STATE		0x55555608U	/* state: read-write */
#define UM_PKRU_CRED		0x55555488U	/* credentials: read-write */
#define UM_PKRU_SECRET		0x55555288U	/* secrets: read-write */

#ifdef CONFIG_UML_PKU

/* Does the host have protection keys, and are they used? Fixed at boot. */
extern int um_pku_active;

/*
 * The mock's substitute for WRPKRU: it also waits for earlier instructions,
 * takes about 30 cycles and clobbers the same registers.
 */
#ifdef CONFIG_UML_PKU_MOCK
#define UM_WRPKRU	"rdtscp"
#else
#define UM_WRPKRU	"wrpkru"
#endif

#define UM_PKRU_SHADOW_STATE	2	/* KPKEYS_LVL_STATE */
#define UM_PKRU_SHADOW_CRED	3	/* KPKEYS_LVL_CRED */
#define UM_PKRU_SHADOW_SECRET	4	/* KPKEYS_LVL_SECRET */

static __always_inline int um_pkru_shadow(void);

static __always_inline unsigned int um_read_pkru(void)
{
	unsigned int pkru, edx;

#ifdef CONFIG_UML_PKU_MOCK
	switch (um_pkru_shadow()) {
	case 0:
		return UM_PKRU_DEFAULT;
	case UM_PKRU_SHADOW_STATE:
		return UM_PKRU_STATE;
	case UM_PKRU_SHADOW_CRED:
		return UM_PKRU_CRED;
	case UM_PKRU_SHADOW_SECRET:
		return UM_PKRU_SECRET;
	default:
		return UM_PKRU_PGTABLES;
	}
#endif

	__asm__ volatile("rdpkru" : "=a" (pkru), "=d" (edx) : "c" (0));
	return pkru;
}

/*
 * An immediate operand inside the asm: the compiler could keep an input operand
 * in a register across calls and spill it to the stack, where an arbitrary
 * write can change it.
 */
#define um_write_pkru(pkru) do {					\
	__asm__ volatile("movl %0, %%eax\n\t"				\
			 "xorl %%ecx, %%ecx\n\t"				\
			 "xorl %%edx, %%edx\n\t"				\
			 UM_WRPKRU					\
			 : : "i" (pkru)					\
			 : "eax", "ecx", "edx", "memory", "cc");	\
} while (0)

/*
 * The level of this CPU (a host thread) if raised, or zero. Without keys it is
 * that of page tables, because nothing has to be raised. An attacker who
 * overwrites it makes guards switch too often, or not at all, and then the
 * guarded write faults.
 */
#define UM_PKRU_SHADOW_NO_KEY	1	/* KPKEYS_LVL_PGTABLES */

extern __thread int um_pkru_shadow_word
	__attribute__((__tls_model__("local-exec")));

static __always_inline int um_pkru_shadow(void)
{
	return um_pkru_shadow_word;
}

static __always_inline void um_set_pkru_shadow(int level)
{
	um_pkru_shadow_word = level;
}

/* Set this CPU to the default level where a context starts. */
static __always_inline void um_pku_reset(void)
{
	if (!um_pku_active)
		return;
	um_set_pkru_shadow(0);
	um_write_pkru(UM_PKRU_DEFAULT);
}

void um_pku_enter(void *mc);
void um_pku_exit(void *mc, int level);
void um_pku_switch(void);

int os_pkey_alloc(void);
int os_pkey_mprotect(void *addr, unsigned long len, int r, int w, int x,
		     int pkey);

/* Offset of PKRU from the beginning of the FPU state in a signal frame. */
extern unsigned int um_pkru_offset;

unsigned int mc_pkru_offset(void);
unsigned int mc_get_pkru(void *mc);
void mc_set_pkru(void *mc, unsigned int pkru);
void mc_call(void *mc, void *target);

#else

static inline int um_pkru_shadow(void) { return 0; }
static inline void um_set_pkru_shadow(int level) { }
static inline void um_pku_reset(void) { }
static inline void um_pku_enter(void *mc) { }
static inline void um_pku_exit(void *mc, int level) { }
static inline void um_pku_switch(void) { }

#endif /* CONFIG_UML_PKU */

#endif /* __SYSDEP_X86_PKEY_H */
