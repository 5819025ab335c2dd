// SPDX-License-Identifier: GPL-2.0-only
/*
 * Host side of protection keys: system calls and signal frames.
 */

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <unistd.h>
#include <sysdep/pkey.h>

/* State component 9 of XSAVE is PKRU. */
#define XSTATE_PKRU		9
/* The XSAVE header follows the 512 bytes of the legacy area. */
#define XSAVE_HDR_OFFSET	512

/* Raised until um_pku_reset() runs with a key allocated. */
__thread int um_pkru_shadow_word = UM_PKRU_SHADOW_NO_KEY;

/**
 * os_pkey_alloc() - Allocate UML's protection keys on the host.
 *
 * Return: 0; -EINVAL or -ENOSYS if the host has no protection keys; -ENOSPC if
 * it has too few; -EBUSY if the process had already allocated one of them.
 */
int os_pkey_alloc(void)
{
	int pkey, want;

#ifdef CONFIG_UML_PKU_MOCK
	return 0;
#endif
	for (want = 1; want <= UM_PKEY_MAX; want++) {
		pkey = syscall(SYS_pkey_alloc, 0, 0);
		if (pkey < 0)
			return -errno;
		if (pkey != want)
			return -EBUSY;
	}
	return 0;
}

/**
 * os_pkey_mprotect() - Set protection and key of host mappings.
 * @addr: start, page-aligned.
 * @len: length in bytes.
 * @r: readable.
 * @w: writable.
 * @x: executable.
 * @pkey: the key.
 *
 * Return: 0 or a negative error, -ENOMEM when the host runs out of mappings.
 */
int os_pkey_mprotect(void *addr, unsigned long len, int r, int w, int x,
		     int pkey)
{
	int prot = (r ? PROT_READ : 0) | (w ? PROT_WRITE : 0) |
		   (x ? PROT_EXEC : 0);

#ifdef CONFIG_UML_PKU_MOCK
	pkey = -1;	/* no key, and no error without keys */
#endif
	if (syscall(SYS_pkey_mprotect, addr, len, prot, pkey) < 0)
		return -errno;
	return 0;
}

/**
 * mc_pkru_offset() - Get the offset of PKRU in a signal frame from the CPU.
 *
 * Signal frames use the standard (not compacted) XSAVE format, in which each
 * component has a fixed offset.
 *
 * Return: offset from the beginning of the FPU state, in bytes.
 */
unsigned int mc_pkru_offset(void)
{
	unsigned int eax, offset, ecx, edx;

	__cpuid_count(0xd, XSTATE_PKRU, eax, offset, ecx, edx);
	return offset;
}

/**
 * mc_get_pkru() - Get the pkey register of the interrupted context.
 * @_mc: the mcontext_t of the signal.
 *
 * A clear bit in XSTATE_BV stands for the initial value of the component, zero.
 *
 * Return: the value that sigreturn would restore.
 */
unsigned int mc_get_pkru(void *_mc)
{
	mcontext_t *mc = _mc;
	char *xsave = (char *)mc->fpregs;
	unsigned long long xstate_bv;
	unsigned int pkru;

#ifdef CONFIG_UML_PKU_MOCK
	return um_read_pkru();
#endif
	memcpy(&xstate_bv, xsave + XSAVE_HDR_OFFSET, sizeof(xstate_bv));
	if (!(xstate_bv & (1ULL << XSTATE_PKRU)))
		return 0;

	memcpy(&pkru, xsave + um_pkru_offset, sizeof(pkru));
	return pkru;
}

/**
 * mc_set_pkru() - Set the pkey register that sigreturn will restore.
 * @_mc: the mcontext_t of the signal.
 * @pkru: its value.
 */
void mc_set_pkru(void *_mc, unsigned int pkru)
{
	mcontext_t *mc = _mc;
	char *xsave = (char *)mc->fpregs;
	unsigned long long xstate_bv;

#ifdef CONFIG_UML_PKU_MOCK
	return;
#endif
	memcpy(&xstate_bv, xsave + XSAVE_HDR_OFFSET, sizeof(xstate_bv));
	xstate_bv |= 1ULL << XSTATE_PKRU;
	memcpy(xsave + XSAVE_HDR_OFFSET, &xstate_bv, sizeof(xstate_bv));
	memcpy(xsave + um_pkru_offset, &pkru, sizeof(pkru));
}

/**
 * mc_call() - Make the interrupted context call a function that never returns.
 * @_mc: the mcontext_t of the signal.
 * @target: the function.
 *
 * A task that dies must do so on its own stack, below the part in use: the next
 * signal, in whatever task, reuses the signal stack.
 */
void mc_call(void *_mc, void *target)
{
	mcontext_t *mc = _mc;
	unsigned long sp = mc->gregs[REG_RSP];

	/* Skip the red zone, and align as after a call instruction. */
	sp = ((sp - 128) & ~15UL) - 8;
	*(unsigned long *)sp = mc->gregs[REG_RIP];

	mc->gregs[REG_RSP] = sp;
	mc->gregs[REG_RIP] = (unsigned long)target;
}
