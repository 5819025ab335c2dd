// SPDX-License-Identifier: GPL-2.0-only
/* A leak about guests of KVM: walk the page tables of one. */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kvm_host.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#ifdef CONFIG_ARM64
#include <asm/kvm_pgtable.h>
#endif

#include "internal.h"

#define BITS_PER_LEVEL	(PAGE_SHIFT - 3)
#define TABLE_BITS	3	/* of arm64; on x86 the guest may read and write */

static unsigned int shift_of(unsigned int above)
{
	return PAGE_SHIFT + BITS_PER_LEVEL * above;
}

/* The entry of the lowest level, or NULL if there is no table with it. */
static u64 *walk(u64 *table, unsigned int above, u64 addr, u64 mask)
{
	u64 entry;

	/* Some topmost tables are several pages. */
	table += addr >> shift_of(above);
	for (; above; above--) {
		entry = *table;
		if (!(entry & TABLE_BITS))
			return NULL;
		table = __va(entry & mask);
		table += addr >> shift_of(above - 1) & (PAGE_SIZE / sizeof(u64) - 1);
	}
	return table;
}

#ifdef CONFIG_X86
static u64 *find_entry(struct kvm_vcpu *vcpu, u64 addr)
{
	const struct kvm_mmu *mmu = vcpu->arch.mmu;

	if (!VALID_PAGE(mmu->root.hpa))
		return NULL;
	return walk(__va(mmu->root.hpa), mmu->root_role.level - 1, addr,
		    PTE_PFN_MASK);
}
#else
static u64 *find_entry(struct kvm_vcpu *vcpu, u64 addr)
{
	const struct kvm_pgtable *pgt = vcpu->arch.hw_mmu->pgt;

	return walk((u64 *)pgt->pgd, KVM_PGTABLE_LAST_LEVEL - pgt->start_level,
		    addr, PTE_ADDR_LOW);
}
#endif

int kpkeys_vuln_leak_guest(void __user *arg)
{
	struct kpkeys_vuln_guest g;
	u64 *entry = NULL;

	if (copy_from_user(&g, arg, sizeof(g)))
		return -EFAULT;

	CLASS(fd, file)(g.vcpu);
	if (fd_empty(file) ||
	    !strstarts(fd_file(file)->f_path.dentry->d_name.name, "kvm-vcpu"))
		return -EBADF;
	entry = find_entry(fd_file(file)->private_data, g.addr);
	if (!entry)
		return -ENXIO;
	g.entry = (unsigned long)entry;
	g.value = READ_ONCE(*entry);
	return copy_to_user(arg, &g, sizeof(g)) ? -EFAULT : 0;
}
