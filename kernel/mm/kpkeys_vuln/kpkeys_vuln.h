/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ioctl interface of the deliberately vulnerable test driver, shared by the
 * driver and by the attack programs. The file is
 * /sys/kernel/debug/kpkeys_vuln/ctl.
 *
 * Only KPKEYS_VULN_SECRET_SET requires a privilege: the rest is available to
 * everyone who can open the file.
 */
#ifndef KPKEYS_VULN_H
#define KPKEYS_VULN_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Page-table levels, lowest first. A folded level names the one it folds to. */
#define KPKEYS_VULN_PTE		0
#define KPKEYS_VULN_PMD		1
#define KPKEYS_VULN_PUD		2
#define KPKEYS_VULN_P4D		3
#define KPKEYS_VULN_PGD		4

/* Special values of kpkeys_vuln_entry.pid. */
#define KPKEYS_VULN_SELF	0
#define KPKEYS_VULN_KERNEL	(-1)

/* Objects per open file for the use-after-free. */
#define KPKEYS_VULN_OBJS	16

#define KPKEYS_VULN_SECRET_LEN	64

/**
 * struct kpkeys_vuln_info - architecture constants known to any attacker
 * @pte_user: a present, writable, user, young, dirty PTE without its address
 * @table: an upper-level entry without its address
 * @sync: bits that mark a changed entry in software-walked tables (UML)
 * @addr: mask of the physical address in an entry
 * @policy: kernel virtual address of the vmalloc-mapped policy page
 * @shift: log2 of the size that one entry maps, by level
 * @pgd_copy: offset from an entry of the topmost table to its copy in the table
 *	used on kernel entry, or 0
 */
struct kpkeys_vuln_info {
	__u64 pte_user;
	__u64 table;
	__u64 sync;
	__u64 addr;
	__u64 policy;
	__u32 shift[5];
	__u32 pgd_copy;
};

/* The arbitrary write: *(u64 *)addr = value, a plain store. Also a read. */
struct kpkeys_vuln_write {
	__u64 addr;
	__u64 value;
};

struct kpkeys_vuln_entry {
	__u64 vaddr;
	__s32 pid;
	__u32 level;
	__u64 addr;	/* out */
	__u64 value;	/* out */
	__u64 page;	/* out: struct page of the table */
};

/* Leak: page @index of the cached file @path. */
struct kpkeys_vuln_file {
	__u64 path;	/* pointer to a string */
	__u64 index;
	__u64 phys;	/* out: its physical address */
	__u64 page;	/* out: its struct page */
	__u64 slot;	/* out: of the pointer to that in the page cache */
};

/*
 * Leak: the task @pid, the pointer from it to its address space, and the word of
 * this CPU that says which task is the current one.
 */
struct kpkeys_vuln_task {
	__s32 pid;
	__u32 pad;
	__u64 pointer;	/* out: of task->mm */
	__u64 mm;	/* out: its value */
	__u64 task;	/* out */
	__u64 current_task;	/* out; 0 if a register, or user mode, goes by it */
};

/*
 * Leak: where the kernel saved user register @reg (an index into struct
 * user_regs_struct) of the sleeping task @pid.
 */
struct kpkeys_vuln_reg {
	__s32 pid;
	__u32 reg;
	__u64 addr;	/* out */
	__u64 value;	/* out */
};

/*
 * Leak: the address of the caller's mm->pgd, and of a user page of the caller
 * in the linear map. And where that page is counted: how often it is mapped,
 * less one, in the low half of the word, and its references in the high half.
 */
struct kpkeys_vuln_mm {
	__u64 page;	/* of the caller, touched */
	__u64 linear;	/* out: the same page in the linear map */
	__u64 addr;	/* out: of mm->pgd */
	__u64 pgd;	/* out: its value */
	__u64 pages;	/* out: size and alignment of the table, in pages */
	__u64 counts;	/* out: of the page's counts; 0 if the kernel watches them */
};

/**
 * struct kpkeys_vuln_frame - leak: the kernel stack of a task
 * @pid:    the task, by its thread id
 * @asleep: out: the task blocks, rather than being preempted
 * @base: out: lowest address of its stack
 * @top: out: end address of its stack
 * @sp: out: its saved stack pointer, or 0 while it runs
 * @regs: out: pt_regs of the innermost kernel-mode exception, or 0
 */
struct kpkeys_vuln_frame {
	__s32 pid;
	__u32 asleep;
	__u64 base;
	__u64 top;
	__u64 sp;
	__u64 regs;
};

/*
 * Leak: where a variable of the kernel is, by its name, and the struct page
 * behind it.
 */
struct kpkeys_vuln_symbol {
	char name[32];
	__u64 addr;	/* out: 0 if there is none */
	__u64 page;	/* out: 0 if the linear map does not have it */
};

/* Leak: where the kernel describes the first buffer of a pipe. */
struct kpkeys_vuln_pipe {
	__s32 fd;
	__u32 pad;
	__u64 buffer;	/* out: of a struct pipe_buffer: page, offset, length */
};

/* Leak: where the kernel keeps the data of a key of type user or logon. */
struct kpkeys_vuln_key {
	__s32 serial;
	__u32 pad;
	__u64 addr;	/* out */
};

/* Leak: where the kernel keeps the key by which task @pid signs data. */
struct kpkeys_vuln_ptrauth {
	__s32 pid;
	__u32 pad;
	__u64 addr;	/* out: of two words */
};

/*
 * Leak: the entry of the lowest level by which KVM maps, or would map, a page to
 * a guest. One that is not present may be 0 or not.
 */
struct kpkeys_vuln_guest {
	__s32 vcpu;	/* file descriptor */
	__u32 pad;
	__u64 addr;	/* of the guest, with a page that it has accessed nearby */
	__u64 entry;	/* out */
	__u64 value;	/* out */
};

/* Leak: the caller's credentials. */
struct kpkeys_vuln_cred {
	__u64 pointer;	/* out: of task->cred */
	__u64 cred;	/* out: its value */
	__u64 uid;	/* out: of the uid in them */
	__u64 usage;	/* out: of their count of references */
	__u64 root;	/* out: the credentials of the kernel itself */
};

/*
 * Arbitrary writes, one after the other, by code that tolerates faults: a
 * refused write ends the list with an error, but does not kill the task.
 */
struct kpkeys_vuln_writes {
	__u64 list;	/* pointer to struct kpkeys_vuln_write */
	__u64 count;
};

/*
 * The use-after-free: objects are pages, or runs of them, that can be read and
 * written even after KPKEYS_VULN_OBJ_FREE and reuse.
 */
struct kpkeys_vuln_obj {
	__u32 index;
	__u32 offset;	/* bytes, multiple of 8 */
	__u64 value;
	__u32 order;	/* of the object, in KPKEYS_VULN_OBJ_ALLOC */
	__u32 pad;
};

/* Kept by the driver for root; readable by the uid in its policy page. */
struct kpkeys_vuln_secret {
	char text[KPKEYS_VULN_SECRET_LEN];
};

struct kpkeys_vuln_policy {
	__u32 reader_uid;
};

#define KPKEYS_VULN_INFO	_IOR('V', 0, struct kpkeys_vuln_info)
#define KPKEYS_VULN_WRITE	_IOW('V', 1, struct kpkeys_vuln_write)
#define KPKEYS_VULN_ENTRY	_IOWR('V', 2, struct kpkeys_vuln_entry)
#define KPKEYS_VULN_FILE	_IOWR('V', 3, struct kpkeys_vuln_file)
#define KPKEYS_VULN_CRED	_IOR('V', 4, struct kpkeys_vuln_cred)
#define KPKEYS_VULN_REG		_IOWR('V', 5, struct kpkeys_vuln_reg)
#define KPKEYS_VULN_OBJ_ALLOC	_IOW('V', 6, struct kpkeys_vuln_obj)
#define KPKEYS_VULN_OBJ_FREE	_IOW('V', 7, struct kpkeys_vuln_obj)
#define KPKEYS_VULN_OBJ_READ	_IOWR('V', 8, struct kpkeys_vuln_obj)
#define KPKEYS_VULN_OBJ_WRITE	_IOW('V', 9, struct kpkeys_vuln_obj)
#define KPKEYS_VULN_SECRET_SET	_IOW('V', 10, struct kpkeys_vuln_secret)
#define KPKEYS_VULN_SECRET_GET	_IOR('V', 11, struct kpkeys_vuln_secret)
/* A TLB flush of the policy page, as any mapping change may cause. */
#define KPKEYS_VULN_FLUSH	_IO('V', 12)
/* A planted bug: put a page of the caller into the restricted direct map. */
#define KPKEYS_VULN_ASI_MAP	_IOW('V', 13, __u64)
#define KPKEYS_VULN_MM		_IOWR('V', 14, struct kpkeys_vuln_mm)
/* The arbitrary read: value = *(u64 *)addr. */
#define KPKEYS_VULN_READ	_IOWR('V', 15, struct kpkeys_vuln_write)
#define KPKEYS_VULN_FRAME	_IOWR('V', 16, struct kpkeys_vuln_frame)
#define KPKEYS_VULN_WRITES	_IOW('V', 17, struct kpkeys_vuln_writes)
/* Leak: the address of the caller's lazy MMU nesting count, one byte. */
#define KPKEYS_VULN_LAZY	_IOR('V', 18, __u64)

#define KPKEYS_VULN_SYMBOL	_IOWR('V', 19, struct kpkeys_vuln_symbol)
#define KPKEYS_VULN_PIPE	_IOWR('V', 20, struct kpkeys_vuln_pipe)
#define KPKEYS_VULN_TASK	_IOWR('V', 21, struct kpkeys_vuln_task)
#define KPKEYS_VULN_KEY		_IOWR('V', 22, struct kpkeys_vuln_key)
/* The arbitrary write by a BPF program, as if the verifier had let it pass. */
#define KPKEYS_VULN_BPF		_IOW('V', 23, struct kpkeys_vuln_write)
#define KPKEYS_VULN_PTRAUTH	_IOWR('V', 24, struct kpkeys_vuln_ptrauth)
#define KPKEYS_VULN_GUEST	_IOWR('V', 25, struct kpkeys_vuln_guest)

#endif /* KPKEYS_VULN_H */
