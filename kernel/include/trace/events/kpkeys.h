/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kpkeys

#if !defined(_TRACE_KPKEYS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KPKEYS_H

#include <linux/tracepoint.h>

DECLARE_EVENT_CLASS(kpkeys_pool,

	TP_PROTO(const char *pool, int nid, unsigned long pfn,
		 unsigned int order, int err),

	TP_ARGS(pool, nid, pfn, order, err),

	TP_STRUCT__entry(
		__string(pool, pool)
		__field(int, nid)
		__field(unsigned long, pfn)
		__field(unsigned int, order)
		__field(int, err)
	),

	TP_fast_assign(
		__assign_str(pool);
		__entry->nid = nid;
		__entry->pfn = pfn;
		__entry->order = order;
		__entry->err = err;
	),

	TP_printk("pool=%s nid=%d pfn=0x%lx order=%u err=%d",
		  __get_str(pool), __entry->nid, __entry->pfn,
		  __entry->order, __entry->err)
);

/* The pool got pages from the page allocator and tried to tag them. */
DEFINE_EVENT(kpkeys_pool, kpkeys_pool_refill,

	TP_PROTO(const char *pool, int nid, unsigned long pfn,
		 unsigned int order, int err),

	TP_ARGS(pool, nid, pfn, order, err)
);

/* The pool tried to untag pages and return them to the page allocator. */
DEFINE_EVENT(kpkeys_pool, kpkeys_pool_give_back,

	TP_PROTO(const char *pool, int nid, unsigned long pfn,
		 unsigned int order, int err),

	TP_ARGS(pool, nid, pfn, order, err)
);

#endif /* _TRACE_KPKEYS_H */

#include <trace/define_trace.h>
