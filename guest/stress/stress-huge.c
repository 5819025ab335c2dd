// SPDX-License-Identifier: GPL-2.0-only
/*
 * Huge pages: faulted in, split in every way there is, moved, shared by fork
 * and collapsed again.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "smaps.h"
#include "stress.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define ENABLED	"/sys/kernel/mm/transparent_hugepage/enabled"
#define HUGE	(2 * MB)

static enum start start_huge(void)
{
	char text[64];

	if (!read_text(ENABLED, text, sizeof(text)))
		return LEFT_OUT;
	if (!strstr(text, "[never]"))
		return READY;
	/* On a machine with little memory the kernel's own choice stays. */
	if (!may_change_machine())
		return LEFT_OUT;
	if (write_text(ENABLED, "madvise"))
		return READY;
	perror("stress: " ENABLED);
	return BROKEN;
}

/* kB that huge entries map in a range; ~0 if the kernel does not say. */
static unsigned long huge_kb(const char *m, size_t length)
{
	return smaps_kb(m, length, "AnonHugePages");
}

/* @n huge pages' worth of address space at a place that suits them. */
static char *map_aligned(size_t n)
{
	char *m = map((n + 1) * HUGE, MAP_PRIVATE | MAP_NORESERVE), *aligned;

	if (!m)
		return NULL;
	aligned = (char *)(((unsigned long)m + HUGE - 1) & ~(HUGE - 1));
	if (aligned != m)
		unmap(m, aligned - m);
	unmap(aligned + n * HUGE, m + HUGE - aligned);
	return aligned;
}

static bool is_zero(const char *m)
{
	return !*(const volatile u64 *)m;
}

/* Change the protection of one page in the middle, and back. */
static bool split_by_protection(char *m, size_t odd)
{
	bool ok;

	if (!need(!mprotect(m + odd * page, page, PROT_READ)))
		return false;
	ok = check(write_faults(m + odd * page + 8));
	ok &= check(!write_faults(m + odd * page - 8));
	ok &= check(!write_faults(m + odd * page + page + 8));
	return need(!mprotect(m, HUGE, PROT_READ | PROT_WRITE)) &&
	       check(!write_faults(m + odd * page + 8)) && ok;
}

/* Give back one page in the middle, of the memory or of the mapping, too. */
static bool split_by_hole(char *m, size_t odd)
{
	char *hole = m + odd * page;

	if (rnd(2)) {
		if (!need(!madvise(hole, page, MADV_DONTNEED)))
			return false;
		return check(is_zero(hole));
	}
	if (!unmap(hole, page))
		return false;
	return need(mmap(hole, page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) == hole) &&
	       check(is_zero(hole));
}

/* Move it all, or half of it, to another place and back. */
static bool move(char *m, u64 seed)
{
	size_t length = rnd(2) ? HUGE : HUGE / 2;
	char *to = map_aligned(1), *moved;
	bool ok;

	if (!need(to))
		return false;
	moved = mremap(m, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (!need(moved != MAP_FAILED)) {
		unmap(to, HUGE);
		return false;
	}
	ok = check(filled(to, length / page, seed));
	moved = mremap(to, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, m);
	if (length < HUGE || moved == MAP_FAILED)
		unmap(to, HUGE);
	return need(moved != MAP_FAILED) && ok;
}

static bool copy_on_write(char *m, u64 seed)
{
	const size_t pages = HUGE / page;
	pid_t pid = fork();

	if (!pid) {
		if (!filled(m, pages, seed))
			_exit(1);
		fill(m + HUGE / 2, pages / 2, ~seed);
		_exit(filled(m, pages / 2, seed) &&
		      filled(m + HUGE / 2, pages / 2, ~seed) ? 0 : 2);
	}
	return ended_with(pid, 0) && check(filled(m, pages, seed));
}

static bool op_huge(void)
{
	const size_t n = 3, pages = HUGE / page;
	size_t odd = 1 + rnd(pages - 2);
	u64 seed = rnd(~0UL);
	char *m = map_aligned(n);
	unsigned long kb;
	bool ok;

	if (!need(m))
		return false;
	ok = need(!madvise(m, n * HUGE, MADV_HUGEPAGE));
	if (!ok)
		goto out;
	ok = check(is_zero(m + odd * page));
	fill(m, n * pages, seed);
	kb = huge_kb(m, n * HUGE);
	ok &= need(kb != ~0UL);
	missed = !kb;

	ok = ok && copy_on_write(m, seed);
	ok = ok && move(m + 2 * HUGE, seed + 2 * pages);
	ok = ok && split_by_protection(m, odd);
	ok = ok && split_by_hole(m + HUGE, odd);
	if (ok && kb == n * HUGE / KB)
		ok = check(huge_kb(m, n * HUGE) < kb);
	ok = ok && check(filled(m, pages + odd, seed)) &&
	     check(filled(m + HUGE + (odd + 1) * page, 2 * pages - odd - 1,
			  seed + pages + odd + 1));
out:
	unmap(m, n * HUGE);
	return ok;
}

/* Small pages that become a huge one in their place. */
static bool op_collapse(void)
{
	const size_t pages = HUGE / page;
	u64 seed = rnd(~0UL);
	char *m = map_aligned(1);
	bool ok;

	if (!need(m))
		return false;
	ok = need(!madvise(m, HUGE, MADV_NOHUGEPAGE));
	if (!ok)
		goto out;
	fill(m, pages, seed);
	ok = check(!huge_kb(m, HUGE));
	ok = ok && need(!madvise(m, HUGE, MADV_HUGEPAGE));
	/* It may find no huge page, or pages that somebody else looks at. */
	missed = ok && madvise(m, HUGE, MADV_COLLAPSE);
	if (ok && !missed)
		missed = !huge_kb(m, HUGE);
	ok &= check(filled(m, pages, seed));
	fill(m, pages, ~seed);
	ok &= check(filled(m, pages, ~seed));
out:
	unmap(m, HUGE);
	return ok;
}

const struct op huge_op = {
	.name = "huge",
	.run = op_huge,
	.start = start_huge,
};
const struct op collapse_op = {
	.name = "collapse",
	.run = op_collapse,
	.start = start_huge,
};
