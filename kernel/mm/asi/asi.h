/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation, within mm/: which pageblocks are for sensitive
 * memory.
 */
#ifndef __MM_ASI_ASI_H
#define __MM_ASI_ASI_H

#include <linux/asi.h>
#include <linux/gfp_types.h>
#include <linux/mmzone.h>

#ifdef CONFIG_MITIGATION_ADDRESS_SPACE_ISOLATION

/* === For the page allocator ============================================= */

/* Is memory of this type kept from others? */
static __always_inline bool asi_is_sensitive(int migratetype)
{
	return asi_enabled() && is_migrate_sensitive(migratetype);
}

int asi_get_type(struct page *page);

/* Is a page to be cleared that is freed? All are until it is known which. */
static __always_inline bool asi_must_clear(struct page *page)
{
	return asi_clears() && (!asi_gives_clean() ||
				is_migrate_sensitive(asi_get_type(page)));
}

/* Was a page cleared that is allocated, so that it need not be now? */
static __always_inline bool asi_is_clean(struct page *page)
{
	return asi_gives_clean() && is_migrate_sensitive(asi_get_type(page));
}

/* May pages of one type be used as the other without being converted? */
static __always_inline bool asi_compatible(int migratetype, int other)
{
	return !asi_enabled() || is_migrate_sensitive(migratetype) ==
				 is_migrate_sensitive(other);
}

/* Does nothing help but a block that is free as a whole, to be converted? */
static __always_inline bool asi_needs_block(int migratetype)
{
	return asi_enabled() && !is_migrate_sensitive(migratetype);
}

/* What may be moved, but is not sensitive, is not to be where all else is. */
static __always_inline int asi_migratetype(gfp_t gfp, int mobility)
{
	if (!asi_enabled())
		return mobility;
	if (gfp & __GFP_SENSITIVE)
		return mobility == MIGRATE_MOVABLE ? MIGRATE_MOVABLE :
						     MIGRATE_UNMOVABLE_SENSITIVE;
	return mobility == MIGRATE_MOVABLE ? MIGRATE_RECLAIMABLE : mobility;
}

/* What a block of the atomic reserve becomes for those who need another type. */
static __always_inline int asi_unreserved_type(int migratetype)
{
	return asi_compatible(migratetype, MIGRATE_HIGHATOMIC) ?
		migratetype : MIGRATE_UNMOVABLE;
}

/* The list per CPU for pages of a type that has none. */
static __always_inline int asi_pcp_type(int migratetype)
{
	return asi_compatible(migratetype, MIGRATE_MOVABLE) ?
		MIGRATE_MOVABLE : MIGRATE_UNMOVABLE;
}

bool __asi_convert(struct zone *zone, unsigned int order, gfp_t gfp,
		   int migratetype);
bool __asi_range_fits(unsigned long start_pfn, unsigned long end_pfn);
void __asi_block_init(struct page *page);

/**
 * asi_convert() - Make pageblocks of the other kind into such as are needed.
 * @zone: where.
 * @order: what is to be allocated.
 * @gfp: how.
 * @migratetype: of what type.
 *
 * Context: as @gfp says, with no lock of the page allocator held.
 * Return: true if it is worth another try.
 */
static __always_inline bool asi_convert(struct zone *zone, unsigned int order,
					gfp_t gfp, int migratetype)
{
	return asi_enabled() && __asi_convert(zone, order, gfp, migratetype);
}

/**
 * asi_range_fits() - May a range be handed out for what it is wanted for?
 * @start_pfn: start of the range, all of which is free and isolated.
 * @end_pfn: its end.
 * @gfp: what it is wanted for.
 *
 * Ordinary memory in a block for sensitive memory is only slow.
 *
 * Return: false if it were sensitive memory in a block for other memory.
 */
static __always_inline bool asi_range_fits(unsigned long start_pfn,
					   unsigned long end_pfn, gfp_t gfp)
{
	return !asi_enabled() || !(gfp & __GFP_SENSITIVE) ||
	       __asi_range_fits(start_pfn, end_pfn);
}

/**
 * asi_block_init() - The type of a pageblock was set for the first time.
 * @page: its first page.
 *
 * It may have been reserved, and thus ordinary, until now.
 *
 * Context: with interrupts, as TLBs may be flushed.
 */
static __always_inline void asi_block_init(struct page *page)
{
	if (asi_enabled())
		__asi_block_init(page);
}

void __init asi_clear_init(void);
void __init asi_init(void);

/* === By the page allocator ============================================== */

struct page *asi_take_free(struct zone *zone, unsigned int min_order,
			   bool sensitive, unsigned int *order);
void asi_give_free(struct zone *zone, struct page *page, unsigned int order);
void asi_set_type(struct page *page, unsigned int order, int migratetype);
unsigned int asi_count_free(struct zone *zone, bool sensitive, unsigned int max);
bool __init asi_settle_block(struct zone *zone, unsigned long pfn);

/* === Within mm/asi/ ====================================================== */

enum asi_event {
	ASI_TO_SENSITIVE,	/* pageblocks */
	ASI_TO_ORDINARY,
	ASI_FLUSHES,		/* of all TLBs, for some pageblocks */
	ASI_REFUSED,		/* might not flush */
	ASI_EXHAUSTED,		/* no free pageblock of the other kind */
	ASI_NR_EVENTS
};

/**
 * struct asi_audit - What is wrong with the restricted direct map.
 * @sensitive: pageblocks for sensitive memory.
 * @ordinary: pageblocks for other memory.
 * @leaks: of the first kind, those that are mapped.
 * @missing: of the second kind, those that are not. These are slow only.
 * @stale: of the second kind, those that are mapped otherwise than in the
 *	direct map.
 * @aliases: pages of the kernel's image that were freed and are mapped there.
 */
struct asi_audit {
	unsigned long sensitive;
	unsigned long ordinary;
	unsigned long leaks;
	unsigned long missing;
	unsigned long stale;
	unsigned long aliases;
};

enum asi_entry asi_look(struct page *page, unsigned long addr, bool *sensitive);
void asi_audit(struct asi_audit *audit);
long asi_event_read(enum asi_event event);

#else

/* Macros, as inline functions would change what the compiler makes of others. */
#define asi_is_sensitive(migratetype)		false
#define asi_must_clear(page)			false
#define asi_is_clean(page)			false
#define asi_compatible(migratetype, other)	true
#define asi_needs_block(migratetype)		false
#define asi_unreserved_type(migratetype)	(migratetype)
#define asi_pcp_type(migratetype)		MIGRATE_MOVABLE
#define asi_migratetype(gfp, mobility)		(mobility)
#define asi_convert(zone, order, gfp, type)	false
#define asi_range_fits(start, end, gfp)		true
#define asi_block_init(page)			do { } while (0)

static inline void asi_clear_init(void)
{
}

static inline void asi_init(void)
{
}

#endif

#endif /* __MM_ASI_ASI_H */
