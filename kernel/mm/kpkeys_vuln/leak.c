// SPDX-License-Identifier: GPL-2.0-only
/* The address leaks of the vulnerable test driver. */
#include <linux/asi.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/kpkeys.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/page_table_check.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include <asm/pgalloc.h>

#include "internal.h"

/* Entry bits, and the location of saved user registers. */
#ifdef CONFIG_UML
#define ENTRY_SYNC	_PAGE_NEEDSYNC
#define ENTRY_ADDR	PAGE_MASK

static unsigned long *saved_regs(struct task_struct *task)
{
	return task->thread.regs.regs.gp;
}
#else
#ifdef CONFIG_ARM64
#define _PAGE_TABLE	(PMD_TYPE_TABLE | PMD_TABLE_AF)
#define ENTRY_ADDR	PTE_ADDR_LOW
#else
#define ENTRY_ADDR	PTE_PFN_MASK
#endif
#define ENTRY_SYNC	0
#define MAX_REG_NR	(sizeof(struct pt_regs) / sizeof(long))

static unsigned long *saved_regs(struct task_struct *task)
{
	return (unsigned long *)task_pt_regs(task);
}
#endif

int kpkeys_vuln_leak_info(void __user *arg)
{
	pte_t pte = pfn_pte(0, PAGE_SHARED);
	struct kpkeys_vuln_info info = {
		.table = _PAGE_TABLE,
		.sync = ENTRY_SYNC,
		.addr = ENTRY_ADDR,
		.policy = kpkeys_vuln_policy_addr(),
		/* See arch_asi_pgd(). */
		.pgd_copy = asi_enabled() ? 2 * PAGE_SIZE : 0,
		.shift = { PAGE_SHIFT, PMD_SHIFT, PUD_SHIFT, P4D_SHIFT, PGDIR_SHIFT },
	};

	pte = pte_mkyoung(pte_mkdirty(pte_mkwrite_novma(pte)));
	info.pte_user = pte_val(pte) | info.sync;

	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static void found(struct kpkeys_vuln_entry *e, void *entry, u64 value)
{
	e->addr = (unsigned long)entry;
	e->value = value;
	e->page = (unsigned long)virt_to_page(entry);
}

/* Like an attacker, read the tables without locks. */
static int walk(struct mm_struct *mm, struct kpkeys_vuln_entry *e)
{
	unsigned long vaddr = e->vaddr;
	pgd_t *pgd = pgd_offset(mm, vaddr);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;
	pte_t *pte;

	if (e->level == KPKEYS_VULN_PGD) {
		found(e, pgd, pgd_val(*pgd));
		return 0;
	}
	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return -ENOENT;

	p4d = p4d_offset(pgd, vaddr);
	if (e->level == KPKEYS_VULN_P4D) {
		found(e, p4d, p4d_val(*p4d));
		return 0;
	}
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return -ENOENT;

	pud = pud_offset(p4d, vaddr);
	if (e->level == KPKEYS_VULN_PUD) {
		found(e, pud, pud_val(*pud));
		return 0;
	}
	if (pud_none(*pud) || pud_bad(*pud))
		return -ENOENT;

	pmd = pmd_offset(pud, vaddr);
	if (e->level == KPKEYS_VULN_PMD) {
		found(e, pmd, pmd_val(*pmd));
		return 0;
	}
	if (pmd_none(*pmd) || pmd_bad(*pmd))
		return -ENOENT;

	pte = pte_offset_kernel(pmd, vaddr);
	found(e, pte, pte_val(*pte));
	return 0;
}

int kpkeys_vuln_leak_entry(void __user *arg)
{
	struct kpkeys_vuln_entry e;
	struct task_struct *task;
	struct mm_struct *mm;
	int err;

	if (copy_from_user(&e, arg, sizeof(e)))
		return -EFAULT;
	if (e.level > KPKEYS_VULN_PGD)
		return -EINVAL;

	if (e.pid == KPKEYS_VULN_KERNEL) {
		err = walk(&init_mm, &e);
	} else {
		if (e.vaddr >= TASK_SIZE)
			return -EINVAL;

		task = find_get_task_by_vpid(e.pid == KPKEYS_VULN_SELF ?
					     task_pid_vnr(current) : e.pid);
		if (!task)
			return -ESRCH;
		mm = get_task_mm(task);
		put_task_struct(task);
		if (!mm)
			return -ESRCH;

		mmap_read_lock(mm);
		err = walk(mm, &e);
		mmap_read_unlock(mm);
		mmput(mm);
	}
	if (err)
		return err;

	return copy_to_user(arg, &e, sizeof(e)) ? -EFAULT : 0;
}

static void find_slot(struct address_space *mapping, struct kpkeys_vuln_file *f)
{
	XA_STATE(xas, &mapping->i_pages, f->index);
	void __rcu **slot = &mapping->i_pages.xa_head;

	guard(rcu)();
	xas_load(&xas);
	if (xas.xa_node)
		slot = &xas.xa_node->slots[xas.xa_offset];
	f->slot = (unsigned long)slot;
}

int kpkeys_vuln_leak_file(void __user *arg)
{
	struct kpkeys_vuln_file f;
	struct inode *inode;
	struct folio *folio;
	struct path path;
	char *name;
	int err;

	if (copy_from_user(&f, arg, sizeof(f)))
		return -EFAULT;

	name = strndup_user((const char __user *)(unsigned long)f.path,
			    PATH_MAX);
	if (IS_ERR(name))
		return PTR_ERR(name);
	err = kern_path(name, LOOKUP_FOLLOW, &path);
	kfree(name);
	if (err)
		return err;

	inode = d_backing_inode(path.dentry);
	if (!S_ISREG(inode->i_mode)) {
		err = -EINVAL;
		goto out;
	}
	folio = filemap_get_folio(inode->i_mapping, f.index);
	if (IS_ERR(folio)) {
		err = PTR_ERR(folio);
		goto out;
	}
	f.page = (unsigned long)folio_file_page(folio, f.index);
	f.phys = PFN_PHYS(page_to_pfn(folio_file_page(folio, f.index)));
	folio_put(folio);
	find_slot(inode->i_mapping, &f);
	err = copy_to_user(arg, &f, sizeof(f)) ? -EFAULT : 0;
out:
	path_put(&path);
	return err;
}

int kpkeys_vuln_leak_cred(void __user *arg)
{
	const struct cred *cred = current_cred();
	struct kpkeys_vuln_cred c = {
		.pointer = (unsigned long)&current->cred,
		.cred = (unsigned long)cred,
		.uid = (unsigned long)&cred->uid,
		.usage = (unsigned long)&cred_ref(cred)->usage,
		.root = (unsigned long)kernel_cred(),
	};

	return copy_to_user(arg, &c, sizeof(c)) ? -EFAULT : 0;
}

/* The caller does not move to another CPU. */
static unsigned long word_of_current(void)
{
#if defined(CONFIG_X86) && !defined(CONFIG_UML)
	return (unsigned long)raw_cpu_ptr(&current_task);
#else
	return 0;
#endif
}

int kpkeys_vuln_leak_task(void __user *arg)
{
	struct kpkeys_vuln_task t;
	struct task_struct *task;

	if (copy_from_user(&t, arg, sizeof(t)))
		return -EFAULT;
	task = find_get_task_by_vpid(t.pid);
	if (!task)
		return -ESRCH;
	t.pointer = (unsigned long)&task->mm;
	t.mm = (unsigned long)READ_ONCE(task->mm);
	t.task = (unsigned long)task;
	t.current_task = word_of_current();
	put_task_struct(task);

	return copy_to_user(arg, &t, sizeof(t)) ? -EFAULT : 0;
}

int kpkeys_vuln_leak_reg(void __user *arg)
{
	struct kpkeys_vuln_reg r;
	struct task_struct *task;
	unsigned long *gp;

	if (copy_from_user(&r, arg, sizeof(r)))
		return -EFAULT;
	if (r.reg >= MAX_REG_NR)
		return -EINVAL;

	task = find_get_task_by_vpid(r.pid);
	if (!task)
		return -ESRCH;
	gp = saved_regs(task);
	r.addr = (unsigned long)&gp[r.reg];
	r.value = READ_ONCE(gp[r.reg]);
	put_task_struct(task);

	return copy_to_user(arg, &r, sizeof(r)) ? -EFAULT : 0;
}

/* Does the kernel notice that a page is freed which a process maps? */
static bool counts_are_watched(void)
{
#ifdef CONFIG_PAGE_TABLE_CHECK
	if (!static_branch_likely(&page_table_check_disabled))
		return true;
#endif
	return IS_ENABLED(CONFIG_DEBUG_VM);
}

static_assert(offsetof(struct page, _mapcount) % sizeof(u64) == 0);
static_assert(offsetof(struct page, _refcount) ==
	      offsetof(struct page, _mapcount) + sizeof(u32));

int kpkeys_vuln_leak_mm(void __user *arg)
{
	struct mm_struct *mm = current->mm;
	struct kpkeys_vuln_mm m;
	struct page *page;

	if (copy_from_user(&m, arg, sizeof(m)))
		return -EFAULT;
	if (get_user_pages_fast(m.page, 1, 0, &page) != 1)
		return -EFAULT;
	m.linear = (unsigned long)page_address(page);
	m.counts = counts_are_watched() ? 0 : (unsigned long)&page->_mapcount;
	put_page(page);

	m.addr = (unsigned long)&mm->pgd;
	m.pgd = (unsigned long)mm->pgd;
	m.pages = 1 << arch_kpkeys_pgd_order(mm);

	return copy_to_user(arg, &m, sizeof(m)) ? -EFAULT : 0;
}

int kpkeys_vuln_leak_word(void __user *arg)
{
	struct kpkeys_vuln_write w;

	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;
	/* Unchecked, because stacks contain KASAN redzones. */
	w.value = READ_ONCE_NOCHECK(*(u64 *)(unsigned long)w.addr);

	return copy_to_user(arg, &w, sizeof(w)) ? -EFAULT : 0;
}
