/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM asi

#if !defined(_TRACE_ASI_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_ASI_H

#include <linux/asi.h>
#include <linux/tracepoint.h>

TRACE_DEFINE_ENUM(ASI_EXIT_FAULT);
TRACE_DEFINE_ENUM(ASI_EXIT_SWITCH_MM);
TRACE_DEFINE_ENUM(ASI_EXIT_TEMPORARY_MM);
TRACE_DEFINE_ENUM(ASI_EXIT_KEXEC);
TRACE_DEFINE_ENUM(ASI_EXIT_SUSPEND);

/* Free pageblocks were converted to sensitive or ordinary. */
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

/* Names of the exits in enum asi_switch. */
#define show_asi_exit(reason)						\
	__print_symbolic(reason,					\
		{ ASI_EXIT_FAULT,		"fault" },		\
		{ ASI_EXIT_SWITCH_MM,		"switch_mm" },		\
		{ ASI_EXIT_TEMPORARY_MM,	"temporary_mm" },	\
		{ ASI_EXIT_KEXEC,		"kexec" },		\
		{ ASI_EXIT_SUSPEND,		"suspend" })

/* The restricted address space was left; @addr is the faulting address. */
TRACE_EVENT(asi_exit,

	TP_PROTO(enum asi_switch reason, unsigned long addr, unsigned long ip),

	TP_ARGS(reason, addr, ip),

	TP_STRUCT__entry(
		__field(int, reason)
		__field(unsigned long, addr)
		__field(unsigned long, ip)
	),

	TP_fast_assign(
		__entry->reason = reason;
		__entry->addr = addr;
		__entry->ip = ip;
	),

	TP_printk("reason=%s addr=0x%lx ip=%pS",
		  show_asi_exit(__entry->reason), __entry->addr,
		  (void *)__entry->ip)
);

#endif /* _TRACE_ASI_H */

#include <trace/define_trace.h>
