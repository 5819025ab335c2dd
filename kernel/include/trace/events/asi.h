/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM asi

#if !defined(_TRACE_ASI_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_ASI_H

#include <linux/tracepoint.h>

/* Free pageblocks have become sensitive, or ordinary. */
TRACE_EVENT(asi_pageblock_convert,

	TP_PROTO(unsigned long pfn, unsigned int order, bool sensitive),

	TP_ARGS(pfn, order, sensitive),

	TP_STRUCT__entry(
		__field(unsigned long, pfn)
		__field(unsigned int, order)
		__field(bool, sensitive)
	),

	TP_fast_assign(
		__entry->pfn = pfn;
		__entry->order = order;
		__entry->sensitive = sensitive;
	),

	TP_printk("pfn=0x%lx order=%u to=%s", __entry->pfn, __entry->order,
		  __entry->sensitive ? "sensitive" : "ordinary")
);

#endif /* _TRACE_ASI_H */

#include <trace/define_trace.h>
