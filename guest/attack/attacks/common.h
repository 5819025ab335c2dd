/* SPDX-License-Identifier: GPL-2.0-only */
/* Declarations shared by the attack programs and their runner. */
#ifndef GUEST_ATTACKS_COMMON_H
#define GUEST_ATTACKS_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"
#include "kpkeys_vuln.h"

#define ATTACKER_UID	1000
#define TOKEN_LEN	32	/* hexadecimal digits, without a terminator */
#define ALTERED		"altered by an unprivileged user"

/* File descriptors that the runner hands to an attack. */
#define FD_LOOT		3	/* what was stolen goes here */
#define FD_REQUEST	4	/* to the root daemon, if there is one */
#define FD_REPLY	5	/* from it */
#define FD_VULN		6	/* the vulnerable driver */

/* The page by which the root daemon decides whom to answer. */
struct daemon_policy {
	u64 requests;
	u64 reader_uid;
};

/* The register in which the root daemon keeps its decision: r12 or x19, denied. */
#ifdef __aarch64__
#define DAEMON_REG	19
#else
#define DAEMON_REG	3
#endif
#define DAEMON_DENIED	0xd0000000

/* A copy of the attack that is set-user-ID root, where the prize has one. */
#define ROOT_PROGRAM	"rooted"

/* How an attack ends that never gets the memory it needs to write to. */
#define EXIT_OUT_OF_REACH	4

/* Exit with a message if the attack cannot go on. */
noreturn void die(const char *what);
noreturn void out_of_reach(const char *why);
noreturn void die_errno(const char *what);

long page_size(void);
unsigned long parse_number(const char *text);

/* The vulnerable driver; each of these exits on error. */
const struct kpkeys_vuln_info *vuln_info(void);
void vuln_write(u64 addr, u64 value);
struct kpkeys_vuln_entry vuln_entry(int pid, const void *vaddr, int level);
struct kpkeys_vuln_file vuln_file(const char *path);
u64 vuln_file_phys(const char *path);
struct kpkeys_vuln_cred vuln_cred(void);
struct kpkeys_vuln_task vuln_task(int pid);
struct kpkeys_vuln_reg vuln_reg(int pid, int reg);
struct kpkeys_vuln_mm vuln_mm(void *page);
u64 vuln_read(u64 addr);
struct kpkeys_vuln_frame vuln_frame(int pid);
u64 vuln_lazy(void);
struct kpkeys_vuln_symbol vuln_symbol(const char *name);
u64 vuln_pipe(int fd);
u64 vuln_key(int serial);
u64 vuln_ptrauth(int pid);
struct kpkeys_vuln_guest vuln_guest(int vcpu, u64 addr);
void vuln_bpf_write(u64 addr, u64 value);
bool vuln_writes(struct kpkeys_vuln_write *list, size_t count);
void vuln_obj(unsigned long cmd, struct kpkeys_vuln_obj *obj);
void vuln_flush(void);
bool vuln_secret(struct kpkeys_vuln_secret *secret);

/* The prize of own-pte: a page of this process, to map a root-only file with. */
struct own_page {
	char *start;		/* between two others */
	u64 addr;		/* of its page-table entry */
	u64 value;		/* of that, now */
	u64 forged;		/* and as it should be */
	u64 table;		/* the struct page of its table */
};

struct own_page own_page(const char *path);
void own_page_use(const struct own_page *page);
void own_page_sync(const struct own_page *page);

/* Memory of this process. */
void *map_pages(void *where, size_t length);
u64 phys_of(void *page);
void sync_between(char *before, char *after);
int keep_for_ever(int what);

/* The prize. */
bool is_token(const char *text);
void report_loot(const char *token);
void steal_and_alter(char *secret);
void steal_and_alter_as_kernel(char *secret);
void steal_and_alter_as_root(const char *path);
bool ask_daemon(char token[TOKEN_LEN]);

#endif /* GUEST_ATTACKS_COMMON_H */
