/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations shared by the parts of the vulnerable test driver. */
#ifndef MM_KPKEYS_VULN_INTERNAL_H
#define MM_KPKEYS_VULN_INTERNAL_H

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/types.h>

#include "kpkeys_vuln.h"

/* The pages that an open file owns or used to own. */
struct kpkeys_vuln_objs {
	u64 *page[KPKEYS_VULN_OBJS];
	unsigned int order[KPKEYS_VULN_OBJS];
	bool freed[KPKEYS_VULN_OBJS];
};

void kpkeys_vuln_store(u64 *where, u64 value);

int kpkeys_vuln_leak_info(void __user *arg);
int kpkeys_vuln_leak_entry(void __user *arg);
int kpkeys_vuln_leak_file(void __user *arg);
int kpkeys_vuln_leak_cred(void __user *arg);
int kpkeys_vuln_leak_task(void __user *arg);
int kpkeys_vuln_leak_reg(void __user *arg);
int kpkeys_vuln_leak_mm(void __user *arg);
int kpkeys_vuln_leak_word(void __user *arg);
int kpkeys_vuln_leak_frame(void __user *arg);
int kpkeys_vuln_leak_lazy(void __user *arg);
int kpkeys_vuln_leak_symbol(void __user *arg);
int kpkeys_vuln_leak_pipe(void __user *arg);

int kpkeys_vuln_obj_ioctl(struct kpkeys_vuln_objs *objs, unsigned int cmd,
			  void __user *arg);
void kpkeys_vuln_obj_release(struct kpkeys_vuln_objs *objs);

int kpkeys_vuln_secret_init(void);
unsigned long kpkeys_vuln_policy_addr(void);
int kpkeys_vuln_secret_set(void __user *arg);
int kpkeys_vuln_secret_get(void __user *arg);
int kpkeys_vuln_flush(void);

#ifdef CONFIG_BPF
int kpkeys_vuln_bpf(void __user *arg);
#else
static inline int kpkeys_vuln_bpf(void __user *arg)
{
	return -EOPNOTSUPP;
}
#endif

#ifdef CONFIG_KEYS
int kpkeys_vuln_leak_key(void __user *arg);
#else
static inline int kpkeys_vuln_leak_key(void __user *arg)
{
	return -EOPNOTSUPP;
}
#endif

#if IS_BUILTIN(CONFIG_KVM)
int kpkeys_vuln_leak_guest(void __user *arg);
#else
static inline int kpkeys_vuln_leak_guest(void __user *arg)
{
	return -EOPNOTSUPP;
}
#endif

#ifdef CONFIG_ARM64_PTR_AUTH
int kpkeys_vuln_leak_ptrauth(void __user *arg);
#else
static inline int kpkeys_vuln_leak_ptrauth(void __user *arg)
{
	return -EOPNOTSUPP;
}
#endif

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION
int kpkeys_vuln_asi_map(void __user *arg);
#else
static inline int kpkeys_vuln_asi_map(void __user *arg)
{
	return -EOPNOTSUPP;
}
#endif

#endif /* MM_KPKEYS_VULN_INTERNAL_H */
