/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation, within mm/: which pageblocks hold sensitive memory.
 */
#ifndef __MM_ASI_ASI_H
#define __MM_ASI_ASI_H

#include <linux/asi.h>
#include <linux/gfp_types.h>
#include <linux/mm.h>
#include <linux/mmzone.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

/* === Used by the page allocator ========================================= */

static __always_inline bool asi_is_sensitive(int migratetype)
{
	return asi_enabled() && is_migrate_sensitive(migratetype);
}

int asi_get_type(struct page *page);
bool __asi_may_defer(unsigned int order);
void asi_defer(struct page *page, unsigned int order);
long __asi_clean_all(void);

/* Clear this page when it is freed? Always, until all blocks have a kind. */
static __always_inline bool asi_must_clear(struct page *page)
{
	return asi_clears() && (!asi_gives_clean() ||
				is_migrate_sensitive(asi_get_type(page)));
}

/* Was this page cleared when it was freed? */
static __always_inline bool asi_is_clean(struct page *page)
{
	return asi_gives_clean() && is_migrate_sensitive(asi_get_type(page));
}

/* May this page be cleared after it is freed? Then it must go to asi_defer(). */
static __always_inline bool asi_may_defer(struct page *page, unsigned int order)
{
	/* Memory that is about to go offline must not be away. */
	return asi_gives_clean() &&
	       is_migrate_sensitive(get_pageblock_migratetype(page)) &&
	       __asi_may_defer(order);
}

/* Clear what is queued. Returns how many pages are free now. */
static __always_inline long asi_clean_all(void)
{
	return asi_gives_clean() ? __asi_clean_all() : 0;
}

/* May pages of one type be used as the other without conversion? */
static __always_inline bool asi_compatible(int migratetype, int other)
{
	return !asi_enabled() || is_migrate_sensitive(migratetype) ==
				 is_migrate_sensitive(other);
}

/* Can only a wholly free block, after conversion, serve this type? */
static __always_inline bool asi_needs_block(int migratetype)
{
	return asi_enabled() && !is_migrate_sensitive(migratetype);
}

void __asi_account_holes(struct zone *zone, int migratetype, long nr_pages);

/*
 * Free pages of ordinary blocks that are partly used, which is of no use to
 * sensitive allocations. Called for all free pages, and then for those of blocks
 * that are wholly free, with the opposite number.
 */
static __always_inline void asi_account_holes(struct zone *zone,
					      int migratetype, long nr_pages)
{
	if (asi_enabled())
		__asi_account_holes(zone, migratetype, nr_pages);
}

/* How many free pages of a zone does the watermark not count? */
static __always_inline long asi_unusable_holes(struct zone *zone, bool sensitive)
{
	return asi_enabled() && sensitive ?
		max(READ_ONCE(zone->nr_ordinary_holes), 0L) : 0;
}

/* May free pages of this type and order serve the allocation? */
static __always_inline bool asi_may_serve(int migratetype, unsigned int order,
					  bool sensitive)
{
	return !asi_enabled() || !sensitive || order >= pageblock_order ||
	       is_migrate_sensitive(migratetype);
}

/* MIGRATE_MOVABLE is sensitive: ordinary movable memory must go elsewhere. */
static __always_inline int asi_migratetype(gfp_t gfp, int mobility)
{
	if (!asi_enabled())
		return mobility;
	if (gfp & __GFP_SENSITIVE)
		return mobility == MIGRATE_MOVABLE ? MIGRATE_MOVABLE :
						     MIGRATE_UNMOVABLE_SENSITIVE;
	return mobility == MIGRATE_MOVABLE ? MIGRATE_RECLAIMABLE : mobility;
}

/* New type of a HIGHATOMIC block that is unreserved for @migratetype. */
static __always_inline int asi_unreserved_type(int migratetype)
{
	return asi_compatible(migratetype, MIGRATE_HIGHATOMIC) ?
		migratetype : MIGRATE_UNMOVABLE;
}

/* The per-CPU list for a type without a list of its own. */
static __always_inline int asi_pcp_type(int migratetype)
{
	return asi_compatible(migratetype, MIGRATE_MOVABLE) ?
		MIGRATE_MOVABLE : MIGRATE_UNMOVABLE;
}

bool __asi_convert(struct zone *zone, unsigned int order, gfp_t gfp,
		   int migratetype);
bool __asi_make_fit(unsigned long start_pfn, unsigned long end_pfn);
void __asi_block_init(struct page *page);

/**
 * asi_convert() - Convert pageblocks to the kind that an allocation needs.
 * @zone: the zone.
 * @order: order of the allocation.
 * @gfp: flags of the allocation.
 * @migratetype: type of the allocation.
 *
 * Context: depends on @gfp; no lock of the page allocator is held.
 * Return: true if the allocation should be retried.
 */
static __always_inline bool asi_convert(struct zone *zone, unsigned int order,
					gfp_t gfp, int migratetype)
{
	return asi_enabled() && __asi_convert(zone, order, gfp, migratetype);
}

/**
 * asi_make_fit() - Prepare a free range for an allocation with these flags.
 * @start_pfn: start of the range, all of which is free and isolated.
 * @end_pfn: its end.
 * @gfp: flags of the allocation.
 *
 * Ordinary memory in a sensitive block is allowed, it is merely slow.
 *
 * Context: may sleep.
 * Return: false if sensitive memory would be in an ordinary block.
 */
static __always_inline bool asi_make_fit(unsigned long start_pfn,
					 unsigned long end_pfn, gfp_t gfp)
{
	return !asi_enabled() || !(gfp & __GFP_SENSITIVE) ||
	       __asi_make_fit(start_pfn, end_pfn);
}

/**
 * asi_block_init() - Handle the first type of a pageblock.
 * @page: first page of the block.
 *
 * Until now the block may have been reserved, and thus ordinary.
 *
 * Context: interrupts on, because TLBs may be flushed.
 */
static __always_inline void asi_block_init(struct page *page)
{
	if (asi_enabled())
		__asi_block_init(page);
}

void __init asi_init(void);

/* === Provided by the page allocator ===================================== */

struct page *asi_take_free(struct zone *zone, unsigned int min_order,
			   bool sensitive, unsigned int *order);
void asi_give_free(struct zone *zone, struct page *page, unsigned int order);
void asi_set_type(struct page *page, unsigned int order, int migratetype);
unsigned int asi_count_free(struct zone *zone, bool sensitive, unsigned int max);
long asi_recount_holes(struct zone *zone);
void asi_free_clean(struct page *page, unsigned int order);
bool __init asi_settle_block(struct zone *zone, unsigned long pfn);

/* === Within mm/asi/ ====================================================== */

enum asi_event {
	ASI_TO_SENSITIVE,	/* pageblocks */
	ASI_TO_ORDINARY,
	ASI_FLUSHES,		/* of all TLBs, for a batch of pageblocks */
	ASI_REFUSED,		/* the caller must not flush */
	ASI_EXHAUSTED,		/* no free pageblock of the other kind */
	ASI_NR_EVENTS
};

/**
 * struct asi_audit - Result of checking the restricted direct map.
 * @sensitive: sensitive pageblocks.
 * @ordinary: ordinary pageblocks.
 * @leaks: sensitive pageblocks that are mapped.
 * @missing: ordinary pageblocks that are not mapped, which is merely slow.
 * @stale: ordinary pageblocks that are mapped differently than in the direct
 *	map.
 * @aliases: freed pages of the kernel image that the image mapping still maps.
 */
struct asi_audit {
	unsigned long sensitive;
	unsigned long ordinary;
	unsigned long leaks;
	unsigned long missing;
	unsigned long stale;
	unsigned long aliases;
};

const char * __init asi_refused(void);
void __init asi_dirty_init(void);
void asi_clear_pages(struct page *page, unsigned int nr);
enum asi_entry asi_look(struct page *page, unsigned long addr, bool *sensitive);
void asi_audit(struct asi_audit *audit);
long asi_event_read(enum asi_event event);

#else

/* Macros, because inline functions would change the code of callers. */
#define asi_is_sensitive(migratetype)		false
#define asi_must_clear(page)			false
#define asi_is_clean(page)			false
#define asi_may_defer(page, order)		false
#define asi_defer(page, order)			do { } while (0)
#define asi_compatible(migratetype, other)	true
#define asi_needs_block(migratetype)		false
#define asi_account_holes(zone, type, nr)	do { } while (0)
#define asi_unusable_holes(zone, sensitive)	0
#define asi_may_serve(type, order, sensitive)	true
#define asi_unreserved_type(migratetype)	(migratetype)
#define asi_pcp_type(migratetype)		MIGRATE_MOVABLE
#define asi_migratetype(gfp, mobility)		(mobility)
#define asi_convert(zone, order, gfp, type)	false
#define asi_make_fit(start, end, gfp)		true
#define asi_block_init(page)			do { } while (0)

static inline long asi_clean_all(void)
{
	return 0;
}

static inline void asi_init(void)
{
}

#endif

#endif /* __MM_ASI_ASI_H */
