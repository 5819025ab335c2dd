/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time of host calls that change UML's own memory map.
 *
 * Benchmarks subtract it, because other architectures make no such calls. Not
 * atomic: exact while only one CPU maps and unmaps.
 */
#ifndef __UM_HOST_CALLS_H
#define __UM_HOST_CALLS_H

#ifdef CONFIG_KPKEYS_BENCH
#include <os.h>

extern unsigned long long host_calls_ns;
extern unsigned long long host_calls_nr;

static inline unsigned long long host_call_begin(void)
{
	return os_nsecs();
}

static inline void host_call_end(unsigned long long begin)
{
	host_calls_ns += os_nsecs() - begin;
	host_calls_nr++;
}
#else
static inline unsigned long long host_call_begin(void) { return 0; }
static inline void host_call_end(unsigned long long begin) { }
#endif

#endif /* __UM_HOST_CALLS_H */
