/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pools of pages that already carry a protection key. Private to mm/kpkeys.
 */
#ifndef __MM_KPKEYS_POOL_H
#define __MM_KPKEYS_POOL_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/cache.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_mappings.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/shrinker.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/*
 * The unit of tagging: the memory that one entry of the linear map covers, or
 * as many contiguous entries as a TLB can join where pages are larger than 4 KB.
 */
#define KPKEYS_BLOCK_ORDER	MIN_T(int, MIN(PMD_SHIFT - PAGE_SHIFT,	\
					       KPKEYS_PROTECTED_ORDER),	\
				      MAX_PAGE_ORDER)
#define KPKEYS_BLOCK_PAGES	(1 << KPKEYS_BLOCK_ORDER)

/* The unit of tagging if no such block is free; else it is what is needed. */
#define KPKEYS_SMALL_ORDER	2
#define KPKEYS_SMALL_PAGES	(1 << KPKEYS_SMALL_ORDER)

/* The largest page table: an x86 PGD with page table isolation and ASI. */
#define KPKEYS_MAX_ORDER	2

/*
 * Pages reserved for splitting the linear map: one table per level, and as many
 * for each further map of all memory that the architecture has.
 */
#ifndef ARCH_MAX_LINEAR_MAPS
#define ARCH_MAX_LINEAR_MAPS	1

static inline unsigned int arch_nr_linear_maps(void)
{
	return 1;
}
#endif

#define KPKEYS_POOL_RESERVE	(2 * arch_nr_linear_maps())
#define KPKEYS_POOL_MAX_RESERVE	(2 * ARCH_MAX_LINEAR_MAPS)

/**
 * enum kpkeys_kind - what a page was handed out for last.
 * @KPKEYS_KIND_CLEAN: for nothing since all TLBs were flushed.
 * @KPKEYS_KIND_DATA: data of the pool.
 * @KPKEYS_KIND_GUEST: a table of a guest, of any level.
 * @KPKEYS_KIND_KERNEL: a table of the kernel, of any level.
 * @KPKEYS_KIND_TABLE: a table of the lowest level; the others follow.
 * @KPKEYS_NR_KINDS: number of kinds.
 *
 * Ordinary data (mm_cpumask, tlb_gen) decides which CPUs are flushed when a
 * table is freed. One that was left out still takes the page for a table of
 * that level, and would take entries of another level for what they are not: a
 * table for a page of the process. So a page changes its kind only after a
 * flush that nothing decides about.
 */
enum kpkeys_kind {
	KPKEYS_KIND_CLEAN,
	KPKEYS_KIND_DATA,
	KPKEYS_KIND_GUEST,
	KPKEYS_KIND_KERNEL,
	KPKEYS_KIND_TABLE,
	KPKEYS_NR_KINDS = KPKEYS_KIND_TABLE + PGTABLE_LEVEL_PGD + 1
};

static_assert(KPKEYS_KIND_TABLE + KPKEYS_ANY_LEVEL == KPKEYS_KIND_KERNEL);
static_assert(KPKEYS_KIND_TABLE + KPKEYS_GUEST_TABLE == KPKEYS_KIND_GUEST);

/**
 * struct kpkeys_region - a naturally aligned block that contains pool pages.
 * @list: entry in one of the lists of its node.
 * @base: first page frame.
 * @nid: node of the memory.
 * @nr_owned: pages that belong to the pool.
 * @nr_avail: owned pages that can be handed out.
 * @whole: the block was allocated and tagged as a whole.
 * @lasting: something that may never be given back was taken from it, and it was
 *	not empty since.
 * @owned: pages that belong to the pool.
 * @avail: pages that can be handed out.
 * @in_use: pages that are handed out; only the first for orders above 0.
 * @inner: the other pages of an order above 0 that is handed out.
 * @early: tagged pages that do not belong to the pool and never will.
 * @stuck: pages to give back once they can be untagged.
 * @objects: pages of objects.c, with a key of their own. Never handed out.
 * @linked: pages to which an entry of a page table points.
 * @kinds: for each kind, the pages of it.
 * @flushing: available pages that will be clean when TLBs have been flushed.
 * @owners: for roots, the mm each page was claimed for; NULL before the first.
 *
 * Lives in memory of the pool, so that it is writable at the pool's level only:
 * a forged region would turn ordinary memory into a page table.
 */
struct kpkeys_region {
	struct list_head list;
	unsigned long base;
	int nid;
	unsigned short nr_owned, nr_avail;
	bool whole, lasting;
	DECLARE_BITMAP(owned, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(avail, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(in_use, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(inner, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(early, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(stuck, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(objects, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(linked, KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(kinds[KPKEYS_NR_KINDS], KPKEYS_BLOCK_PAGES);
	DECLARE_BITMAP(flushing, KPKEYS_BLOCK_PAGES);
	struct mm_struct **owners;
};

/**
 * struct kpkeys_pool_node - the regions of one NUMA node. Protected.
 * @partial: regions with some pages available, the latest that drains at the end.
 * @full: regions with no page available.
 * @empty: whole blocks with all pages available.
 * @nr_avail: available pages in all regions.
 * @nr_clean: how many of these are clean.
 * @nr_blocks: number of whole blocks.
 * @nr_small: pages owned in other regions.
 * @nr_empty: length of @empty.
 * @trim_at: a trim is considered when @nr_avail exceeds this.
 */
struct kpkeys_pool_node {
	struct list_head partial, full, empty;
	unsigned long nr_avail, nr_clean;
	unsigned long nr_blocks, nr_small, nr_empty;
	unsigned long trim_at;
};

/* Pages kept for the pool's own data: one descriptor and one leaf. */
#define KPKEYS_MIN_SPARE	2

/* Order-0 pages of the CPU's node, handed out without contention. */
#define KPKEYS_MAGAZINE_SIZE	30
/* Few tables are not of the lowest level. */
#define KPKEYS_SMALL_MAGAZINE	8

/**
 * struct kpkeys_magazine - the cache of one CPU for one kind. Protected.
 * @nid: node of the pages.
 * @nr: number of pages.
 * @size: the most it may have.
 * @page: the pages, used as a stack.
 */
struct kpkeys_magazine {
	int nid;
	unsigned short nr, size;
	struct page *page[KPKEYS_MAGAZINE_SIZE];
} ____cacheline_aligned_in_smp;

/**
 * struct kpkeys_pool_state - data that decides which pages are handed out.
 * @nodes: indexed by node.
 * @magazines: for each CPU, one for each kind.
 * @tagging: the task that is changing keys for the pool. Page tables that it
 *	allocates meanwhile are for splitting the linear map.
 * @reserve: pages for that purpose only.
 * @nr_reserve: how many there are.
 * @spare: pages for the pool's own data, linked by their first word.
 * @nr_spare: how many there are.
 * @nr_own: pages for the pool's own data, used or spare. It only grows.
 * @nr_other: pages with another key, never handed out. It only grows.
 * @free_regions: unused descriptors.
 * @offered: a bit for each block with pages that may enter the pool.
 * @first_offered: the first of these page frames.
 * @nr_offered: how many there are from the first to the last; 0 if none are
 *	being looked at.
 * @protected: a bit for each block that has a page in @owned or @early, or is
 *	offered.
 * @lost_roots: whether a root was kept because its tables were in use when its
 *	mm was freed.
 */
struct kpkeys_pool_state {
	struct kpkeys_pool_node *nodes;
	struct kpkeys_magazine *magazines;
	struct task_struct *tagging;
	struct page *reserve[KPKEYS_POOL_MAX_RESERVE];
	unsigned int nr_reserve;
	void *spare;
	unsigned int nr_spare, nr_own, nr_other;
	struct list_head free_regions;
	unsigned long *offered, *protected;
	unsigned long first_offered, nr_offered;
	bool lost_roots;
};

/* Pool statistics. Unprotected, because no decision depends on them. */
enum kpkeys_pool_event {
	KPKEYS_POOL_BLOCKS_ADDED,
	KPKEYS_POOL_BLOCKS_RETURNED,
	KPKEYS_POOL_SMALL_ADDED,
	KPKEYS_POOL_SMALL_RETURNED,
	KPKEYS_POOL_SPLITS,		/* tables taken from the reserve */
	KPKEYS_POOL_FAILED_ALLOCS,
	KPKEYS_POOL_FAILED_TAGS,
	KPKEYS_POOL_FAILED_UNTAGS,
	KPKEYS_POOL_BAD_TAKES,		/* page was not free, or not of the pool */
	KPKEYS_POOL_BAD_FREES,		/* page was not handed out, or is linked */
	KPKEYS_POOL_REFUSED,		/* pages that a process maps */
	KPKEYS_POOL_NR_EVENTS
};

/* A lock in a cache line of its own. */
struct kpkeys_pool_lock {
	spinlock_t lock;	/* see struct kpkeys_pool_sync */
} ____cacheline_aligned;

/**
 * struct kpkeys_pool_sync - the part of a pool that must stay writable.
 * @grow: serialises adding and giving back blocks.
 * @node_lock: protects lists and bitmaps of a node, indexed by node.
 * @cpu_lock: protects the magazines of a CPU. Nests outside @node_lock.
 * @work: adds a block when few pages are left, gives back idle blocks.
 * @events: counters.
 * @nr_stuck: pages to be given back that could not be untagged.
 * @retry_at: time of the next refill of a node after a failed one or a flush, in
 *	jiffies.
 * @idle: pages of a node that were last told to the system as reclaimable.
 */
struct kpkeys_pool_sync {
	struct mutex grow;	/* see @grow above */
	struct kpkeys_pool_lock *node_lock;
	struct kpkeys_pool_lock *cpu_lock;
	struct delayed_work work;
	atomic_long_t events[KPKEYS_POOL_NR_EVENTS];
	atomic_long_t nr_stuck;
	unsigned long *retry_at;
	atomic_long_t *idle;
};

/**
 * struct kpkeys_pool - pages of one key.
 * @name: for messages.
 * @pkey: the key.
 * @level: the level at which pages with @pkey are writable.
 * @state: data protected by @pkey itself.
 * @sync: locks and counters.
 * @state_size: size of @state in bytes.
 * @nr_nodes: number of nodes in @state.
 * @nr_cpus: number of CPUs in @state.
 * @directory: finds the region of a page in two steps; in memory of @state.
 * @directory_size: number of leaves in @directory.
 * @count_objects: shrinker callback.
 * @scan_objects: shrinker callback.
 *
 * Read-only after boot. For another key, define an instance with KPKEYS_POOL()
 * and add its level to kpkeys_pool_raise().
 */
struct kpkeys_pool {
	const char *name;
	int pkey;
	int level;
	struct kpkeys_pool_state *state;
	struct kpkeys_pool_sync *sync;
	size_t state_size;
	unsigned int nr_nodes, nr_cpus;
	struct kpkeys_region ***directory;
	unsigned long directory_size;
	unsigned long (*count_objects)(struct shrinker *shrinker,
				       struct shrink_control *sc);
	unsigned long (*scan_objects)(struct shrinker *shrinker,
				      struct shrink_control *sc);
};

/*
 * Each instance has its own callbacks: a pool pointer next to a shared callback
 * would sit in writable memory.
 */
#define KPKEYS_POOL(_var, _name, _pkey, _level)				\
	static void _var##_work(struct work_struct *work);		\
	static unsigned long _var##_count(struct shrinker *shrinker,	\
					  struct shrink_control *sc);	\
	static unsigned long _var##_scan(struct shrinker *shrinker,	\
					 struct shrink_control *sc);	\
	static struct kpkeys_pool_sync _var##_sync = {			\
		.grow = __MUTEX_INITIALIZER(_var##_sync.grow),		\
		.work = __DELAYED_WORK_INITIALIZER(_var##_sync.work,	\
						   _var##_work, 0),	\
	};								\
	struct kpkeys_pool _var __ro_after_init = {			\
		.name = _name,						\
		.pkey = _pkey,						\
		.level = _level,					\
		.sync = &_var##_sync,					\
		.count_objects = _var##_count,				\
		.scan_objects = _var##_scan,				\
	};								\
	static void _var##_work(struct work_struct *work)		\
	{								\
		kpkeys_pool_background(&_var);				\
	}								\
	static unsigned long _var##_count(struct shrinker *shrinker,	\
					  struct shrink_control *sc)	\
	{								\
		return kpkeys_pool_count_idle(&_var);			\
	}								\
	static unsigned long _var##_scan(struct shrinker *shrinker,	\
					 struct shrink_control *sc)	\
	{								\
		return kpkeys_pool_scan_idle(&_var);			\
	}

/*
 * Raise to the level of a pool for a scope entered at the default. The switch
 * is there because the register is only written with constants. Preemption is
 * disabled because no level may be held across a context switch, and spinlocks
 * do not prevent one with PREEMPT_RT.
 */
static __always_inline void kpkeys_pool_raise(const struct kpkeys_pool *pool)
{
	preempt_disable_notrace();
	switch (pool->level) {
	case KPKEYS_LVL_PGTABLES:
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		break;
	}
}

static __always_inline void kpkeys_pool_lower(void)
{
	kpkeys_lower();
	preempt_enable_notrace();
}

DEFINE_CLASS(kpkeys_pool_level, int, ((void)_T, kpkeys_pool_lower()),
	     (kpkeys_pool_raise(pool), 0), const struct kpkeys_pool *pool)
DEFINE_CLASS_IS_UNCONDITIONAL(kpkeys_pool_level)

/*
 * CPU and node numbers come from ordinary memory and select the pages to hand
 * out: a forged number must not index outside the pool's own memory.
 */
static inline struct kpkeys_pool_node *
kpkeys_pool_node(const struct kpkeys_pool *pool, unsigned int nid)
{
	return &pool->state->nodes[nid < pool->nr_nodes ? nid : 0];
}

static inline struct kpkeys_magazine *
kpkeys_pool_magazine(const struct kpkeys_pool *pool, unsigned int cpu,
		     enum kpkeys_kind kind)
{
	return &pool->state->magazines[(cpu < pool->nr_cpus ? cpu : 0) *
				       KPKEYS_NR_KINDS + kind];
}

static inline spinlock_t *kpkeys_pool_node_lock(const struct kpkeys_pool *pool,
						unsigned int nid)
{
	return &pool->sync->node_lock[nid < pool->nr_nodes ? nid : 0].lock;
}

static inline spinlock_t *kpkeys_pool_cpu_lock(const struct kpkeys_pool *pool,
					       unsigned int cpu)
{
	return &pool->sync->cpu_lock[cpu < pool->nr_cpus ? cpu : 0].lock;
}

static inline void kpkeys_pool_count(const struct kpkeys_pool *pool,
				     enum kpkeys_pool_event event)
{
	atomic_long_inc(&pool->sync->events[event]);
}

/* === From a page to its region ========================================== */

#define KPKEYS_LEAF_ENTRIES	(PAGE_SIZE / sizeof(struct kpkeys_region *))

static inline bool kpkeys_directory_covers(const struct kpkeys_pool *pool,
					   unsigned long pfn)
{
	return (pfn >> KPKEYS_BLOCK_ORDER) / KPKEYS_LEAF_ENTRIES <
	       pool->directory_size;
}

/* The page frame behind the last that the directory covers. */
static inline unsigned long kpkeys_directory_end(const struct kpkeys_pool *pool)
{
	return pool->directory_size * KPKEYS_LEAF_ENTRIES << KPKEYS_BLOCK_ORDER;
}

/* The region around a page, whether the pool owns the page or not. */
static inline struct kpkeys_region *
kpkeys_region_around(const struct kpkeys_pool *pool, unsigned long pfn)
{
	unsigned long nr = pfn >> KPKEYS_BLOCK_ORDER;
	struct kpkeys_region **leaf;

	if (!kpkeys_directory_covers(pool, pfn))
		return NULL;

	/* Pairs with the release in kpkeys_directory_slot(). */
	leaf = smp_load_acquire(&pool->directory[nr / KPKEYS_LEAF_ENTRIES]);
	if (!leaf)
		return NULL;

	/* Pairs with the release in kpkeys_region_add(). */
	return smp_load_acquire(&leaf[nr % KPKEYS_LEAF_ENTRIES]);
}

/* === regions.c: bookkeeping; callers have raised the level ============== */

size_t kpkeys_directory_size(struct kpkeys_pool *pool);
bool kpkeys_region_fits(const struct kpkeys_pool *pool, struct page *page,
			unsigned int nr);
struct kpkeys_region *kpkeys_region_find(const struct kpkeys_pool *pool,
					 unsigned long pfn, unsigned int *index);
bool kpkeys_pool_protects(const struct kpkeys_pool *pool, unsigned long pfn,
			  unsigned long nr);
struct kpkeys_region *kpkeys_region_add(const struct kpkeys_pool *pool,
					struct page *page, unsigned int nr,
					bool whole);
void kpkeys_region_remove(const struct kpkeys_pool *pool,
			  struct kpkeys_region *region);
unsigned int kpkeys_region_order(const struct kpkeys_region *region,
				 unsigned int first);

void kpkeys_region_make_available(struct kpkeys_pool_node *node,
				  struct kpkeys_region *region,
				  unsigned int first, unsigned int nr);
void kpkeys_region_make_unavailable(struct kpkeys_pool_node *node,
				    struct kpkeys_region *region,
				    unsigned int first, unsigned int nr);
void kpkeys_region_enlist(struct kpkeys_pool_node *node,
			  struct kpkeys_region *region);
struct page *kpkeys_node_take(struct kpkeys_pool_node *node,
			      unsigned int order, enum kpkeys_kind kind,
			      bool lasting);
bool kpkeys_node_gather(struct kpkeys_pool_node *node);

void kpkeys_spare_push(const struct kpkeys_pool *pool, void *addr);
void *kpkeys_spare_pop(const struct kpkeys_pool *pool);
void kpkeys_region_set_early(const struct kpkeys_pool *pool, struct page *page,
			     bool early);
bool kpkeys_spare_adopt(const struct kpkeys_pool *pool, struct page *page);

/* === kinds.c: what pages were handed out for ============================= */

enum kpkeys_kind kpkeys_region_kind(const struct kpkeys_region *region,
				    unsigned int i);
bool kpkeys_region_set_kind(struct kpkeys_region *region, unsigned int first,
			    unsigned int nr, enum kpkeys_kind kind);
void kpkeys_region_set_clean(struct kpkeys_region *region, unsigned int first,
			     unsigned int nr);
unsigned long kpkeys_pool_clean(const struct kpkeys_pool *pool, int nid);

/* === magazine.c: taking available pages and putting them back ============ */

struct page *kpkeys_pool_take(const struct kpkeys_pool *pool, int nid,
			      gfp_t gfp, unsigned int order,
			      enum kpkeys_kind kind);
struct page *kpkeys_pool_take_kept(const struct kpkeys_pool *pool, int nid,
				   gfp_t gfp, unsigned int order,
				   enum kpkeys_kind kind);
bool kpkeys_pool_put(const struct kpkeys_pool *pool,
		     struct kpkeys_region *region, unsigned int first,
		     unsigned int order);
struct page *kpkeys_pool_take_reserve(const struct kpkeys_pool *pool,
				      enum kpkeys_kind kind, bool zero);
unsigned long kpkeys_pool_cached(const struct kpkeys_pool *pool);
void kpkeys_pool_drain_cpu(const struct kpkeys_pool *pool, unsigned int cpu);

/* === mappings.c: no page of the pool is mapped a second time ============= */

#ifdef CONFIG_KPKEYS_CHECK_MAPPINGS
void kpkeys_mappings_offer(const struct kpkeys_pool *pool, unsigned long pfn,
			   unsigned int nr);
bool kpkeys_mappings_search(const struct kpkeys_pool *pool);
bool kpkeys_mappings_offered(const struct kpkeys_pool *pool, unsigned long pfn);
void kpkeys_mappings_settle(const struct kpkeys_pool *pool);
void kpkeys_mappings_start(const struct kpkeys_pool *pool);
#else
static inline void kpkeys_mappings_offer(const struct kpkeys_pool *pool,
					 unsigned long pfn, unsigned int nr)
{
}

static inline bool kpkeys_mappings_search(const struct kpkeys_pool *pool)
{
	return true;
}

static inline bool kpkeys_mappings_offered(const struct kpkeys_pool *pool,
					   unsigned long pfn)
{
	return true;
}

static inline void kpkeys_mappings_settle(const struct kpkeys_pool *pool) { }
static inline void kpkeys_mappings_start(const struct kpkeys_pool *pool) { }
#endif

/* === pool_init.c ======================================================== */

int kpkeys_pool_init(struct kpkeys_pool *pool);
int kpkeys_pool_late_init(const struct kpkeys_pool *pool);

/* === blocks.c: memory that enters and leaves ============================ */

int kpkeys_block_add(const struct kpkeys_pool *pool, struct page *page,
		     unsigned int order, unsigned int min_spare);
int kpkeys_block_tag(const struct kpkeys_pool *pool, struct page *page,
		     unsigned int order, unsigned int min_spare);
int kpkeys_block_search_and_tag(const struct kpkeys_pool *pool,
				struct page *page, unsigned int order,
				unsigned int min_spare);
int kpkeys_block_add_other(const struct kpkeys_pool *pool, struct page *page,
			   unsigned int order, int first_pkey, int pkey);
void kpkeys_block_set_objects(const struct kpkeys_pool *pool, struct page *page,
			      unsigned int order);
void kpkeys_block_free_pages(struct page *page, unsigned int nr);
void kpkeys_pool_flush(void);
void kpkeys_pool_report_idle(const struct kpkeys_pool *pool, unsigned int nid);
unsigned long kpkeys_pool_trim(const struct kpkeys_pool *pool,
			       unsigned int keep);
void kpkeys_pool_ask_for_refill(const struct kpkeys_pool *pool, int nid);
void kpkeys_pool_ask_for_trim(const struct kpkeys_pool *pool);
void kpkeys_pool_background(const struct kpkeys_pool *pool);
unsigned long kpkeys_pool_count_idle(const struct kpkeys_pool *pool);
unsigned long kpkeys_pool_scan_idle(const struct kpkeys_pool *pool);

/* === grow.c: growing ==================================================== */

struct page *kpkeys_pool_get_pages(int nid, gfp_t gfp, unsigned int order);
unsigned int kpkeys_blocks_at_once(const struct kpkeys_pool_node *node);
struct page *kpkeys_pool_grow_and_take(const struct kpkeys_pool *pool, int nid,
				       gfp_t gfp, unsigned int order,
				       enum kpkeys_kind kind);
bool kpkeys_pool_refill_node(const struct kpkeys_pool *pool, int nid);

/* A node with fewer clean pages gets some in the background. */
#define KPKEYS_POOL_LOW		64

/* A node may keep this many idle blocks before a trim. */
#define KPKEYS_IDLE_BLOCKS	2

/* Has a node much available, or more empty blocks than it may keep? */
static inline bool kpkeys_node_is_idle(const struct kpkeys_pool_node *node)
{
	unsigned long empty = READ_ONCE(node->nr_empty);

	return READ_ONCE(node->nr_avail) > READ_ONCE(node->trim_at) ||
	       (empty > KPKEYS_IDLE_BLOCKS && empty > kpkeys_blocks_at_once(node));
}

/* How many available pages are not fit for any kind? */
static inline unsigned long kpkeys_node_unclean(const struct kpkeys_pool_node *node)
{
	unsigned long avail = READ_ONCE(node->nr_avail);

	return avail - min(avail, READ_ONCE(node->nr_clean));
}

/* === pool.c: allocation and freeing ===================================== */

struct page *kpkeys_pool_alloc(const struct kpkeys_pool *pool, gfp_t gfp,
			       unsigned int order, enum kpkeys_kind kind);
bool kpkeys_pool_free(const struct kpkeys_pool *pool, struct page *page);
bool kpkeys_pool_owns(const struct kpkeys_pool *pool, struct page *page);

/* === pool_debugfs.c ===================================================== */

#ifdef CONFIG_DEBUG_FS
void kpkeys_pool_debugfs(const struct kpkeys_pool *pool);
#else
static inline void kpkeys_pool_debugfs(const struct kpkeys_pool *pool) { }
#endif

#endif /* __MM_KPKEYS_POOL_H */
