// SPDX-License-Identifier: GPL-2.0-only
/*
 * The direct maps of KeyIDs: copies of that of KeyID 0 with the KeyID in each
 * entry, and not executable.
 *
 * set_memory_*() treats them as aliases, like the mapping of the kernel image,
 * see cpa_process_alias().
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pgtable.h>

#include <asm/pgalloc.h>
#include <asm/tlbflush.h>

#include "mktme.h"

/* === Entries ============================================================ */

/* An entry of the direct map, at any level. */
struct map_entry {
	enum pg_level level;
	unsigned long pfn;
	pgprot_t prot;
};

/* Find what maps an address; sets the level even if there is no entry. */
static bool mktme_find_entry(unsigned long addr, struct map_entry *entry)
{
	unsigned int level;
	pte_t *pte = lookup_address(addr, &level);

	entry->level = level;
	if (!pte || pte_none(*pte))
		return false;
	switch (level) {
	case PG_LEVEL_4K:
		entry->pfn = pte_pfn(*pte);
		entry->prot = pte_pgprot(*pte);
		return true;
	case PG_LEVEL_2M:
		entry->pfn = pmd_pfn(*(pmd_t *)pte);
		entry->prot = pmd_pgprot(*(pmd_t *)pte);
		return true;
	case PG_LEVEL_1G:
		entry->pfn = pud_pfn(*(pud_t *)pte);
		entry->prot = pud_pgprot(*(pud_t *)pte);
		return true;
	default:
		return false;
	}
}

/* Narrow an entry to the next smaller page size at @addr. */
static void mktme_split_entry(struct map_entry *entry, unsigned long addr)
{
	if (entry->level == PG_LEVEL_1G) {
		entry->pfn += pmd_index(addr) * PTRS_PER_PTE;
		entry->level = PG_LEVEL_2M;
	} else {
		entry->pfn += pte_index(addr);
		entry->prot = pgprot_large_2_4k(entry->prot);
		entry->level = PG_LEVEL_4K;
	}
}

/*
 * Create an entry, or as much of it as existing tables allow: tables stay when
 * memory is removed, and may map smaller pages than before.
 */
static int mktme_make_entry(unsigned long addr, struct map_entry *entry)
{
	pgd_t *pgd = pgd_offset_k(addr);
	p4d_t *p4d = p4d_alloc(&init_mm, pgd, addr);
	pud_t *pud = p4d ? pud_alloc(&init_mm, p4d, addr) : NULL;
	pmd_t *pmd;
	pte_t *pte;

	if (!pud)
		return -ENOMEM;
	if (entry->level == PG_LEVEL_1G && (pud_none(*pud) || pud_leaf(*pud))) {
		set_pud(pud, pfn_pud(entry->pfn, entry->prot));
		return 0;
	}
	if (entry->level == PG_LEVEL_1G)
		mktme_split_entry(entry, addr);

	pmd = pmd_alloc(&init_mm, pud, addr);
	if (!pmd)
		return -ENOMEM;
	if (entry->level == PG_LEVEL_2M && (pmd_none(*pmd) || pmd_leaf(*pmd))) {
		set_pmd(pmd, pfn_pmd(entry->pfn, entry->prot));
		return 0;
	}
	if (entry->level == PG_LEVEL_2M)
		mktme_split_entry(entry, addr);

	pte = pte_alloc_kernel(pmd, addr);
	if (!pte)
		return -ENOMEM;
	set_pte(pte, pfn_pte(entry->pfn, entry->prot));
	return 0;
}

/* Clear an entry; returns the address of the next one. */
static unsigned long mktme_clear_entry(unsigned long addr)
{
	unsigned int level;
	pte_t *pte = lookup_address(addr, &level);
	unsigned long next = (addr & page_level_mask(level)) +
			     page_level_size(level);

	if (!pte || pte_none(*pte))
		return next;
	switch (level) {
	case PG_LEVEL_4K:
		pte_clear(&init_mm, addr, pte);
		break;
	case PG_LEVEL_2M:
		pmd_clear((pmd_t *)pte);
		break;
	case PG_LEVEL_1G:
		pud_clear((pud_t *)pte);
		break;
	default:
		break;
	}
	return next;
}

/* === Ranges ============================================================= */

/*
 * Entries that are not present are copied as well: set_memory_*() may make them
 * present later and expects an alias.
 */
static int mktme_copy_range(phys_addr_t start, phys_addr_t end,
			    unsigned int keyid)
{
	unsigned long first = (unsigned long)__va(start);
	unsigned long last = (unsigned long)__va(end);
	unsigned long offset = mktme_va(start, keyid) - __va(start);
	unsigned long addr, next;
	struct map_entry entry;
	int err;

	for (addr = first; addr < last; addr = next) {
		bool found = mktme_find_entry(addr, &entry);

		if (found) {
			entry.prot = mktme_pgprot(entry.prot, keyid);
			pgprot_val(entry.prot) |= _PAGE_NX & __supported_pte_mask;
			err = mktme_make_entry(addr + offset, &entry);
			if (err)
				return err;
		}
		next = (addr & page_level_mask(entry.level)) +
		       page_level_size(entry.level);
	}
	return 0;
}

/**
 * mktme_unmap_memory() - Unmap removed memory from the direct maps of KeyIDs.
 * @start: physical address.
 * @end: its end.
 *
 * Page tables stay, for memory that is added later.
 *
 * Context: may sleep; the memory is not in use, and no large page crosses the
 * ends of the range.
 */
void __meminit mktme_unmap_memory(phys_addr_t start, phys_addr_t end)
{
	unsigned int keyid;

	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		unsigned long addr = (unsigned long)mktme_va(start, keyid);
		unsigned long last = (unsigned long)mktme_va(end, keyid);

		while (addr < last)
			addr = mktme_clear_entry(addr);
	}
	if (mktme_nr_keyids())
		flush_tlb_all();
}

/**
 * mktme_map_memory() - Map added memory in the direct maps of KeyIDs.
 * @start: physical address.
 * @end: its end.
 *
 * Context: may sleep except during boot; the caller serialises changes of the
 * range.
 * Return: 0 or -ENOMEM, with nothing mapped.
 */
int __meminit mktme_map_memory(phys_addr_t start, phys_addr_t end)
{
	unsigned int keyid;
	int err;

	for (keyid = 1; keyid <= mktme_nr_keyids(); keyid++) {
		err = mktme_copy_range(start, end, keyid);
		if (err) {
			mktme_unmap_memory(start, end);
			return err;
		}
		arch_sync_kernel_mappings((unsigned long)mktme_va(start, keyid),
					  (unsigned long)mktme_va(end, keyid) - 1);
	}
	return 0;
}

/**
 * mktme_init_direct_maps() - Create the direct maps of all KeyIDs.
 *
 * Panics if memory is short.
 *
 * Context: boot, as soon as the page allocator works.
 */
void __init mktme_init_direct_maps(void)
{
	phys_addr_t start, end;
	u64 i;

	for_each_mem_range(i, &start, &end)
		if (mktme_map_memory(round_down(start, PAGE_SIZE),
				     round_up(end, PAGE_SIZE)))
			panic("x86/mktme: no memory for direct maps\n");
}
