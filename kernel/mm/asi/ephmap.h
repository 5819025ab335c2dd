/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Address space isolation, within mm/asi/: folios of files in windows.
 */
#ifndef __MM_ASI_EPHMAP_H
#define __MM_ASI_EPHMAP_H

#include <linux/asi.h>
#include <linux/mm_types.h>
#include <linux/uio.h>

void *ephmap_open_folio(struct ephmap *map, struct folio *folio, size_t offset,
			size_t bytes);
void ephmap_close_folio(struct ephmap *map);
bool ephmap_fault_in(struct iov_iter *iter, size_t bytes);

#endif /* __MM_ASI_EPHMAP_H */
