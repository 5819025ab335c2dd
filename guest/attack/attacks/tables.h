/* SPDX-License-Identifier: GPL-2.0-only */
/* Page tables of the attacker that lie in memory which it can write to. */
#ifndef GUEST_ATTACKS_TABLES_H
#define GUEST_ATTACKS_TABLES_H

#include "common.h"

/* Memory that may become page tables, and how the attacker gets at it. */
struct window {
	size_t pages;
	u64 (*read)(size_t page, unsigned int slot);
	void (*write)(size_t page, unsigned int slot, u64 value);
};

/* Address space in which each touched page takes a table of its own. */
struct spans {
	char *start;
	size_t used, max;
};

void *populated(size_t length);
void use_up_memory(size_t left);
struct spans reserve_spans(size_t max);
void fill_spans(struct spans *spans, size_t count);
long find_table(const struct window *window);
void use_table(const struct window *window, size_t page,
	       const struct spans *spans, const char *path);

/* Fill spans until a table appears in the window, and use that, if one does. */
bool attack_by_window(const struct window *window, const char *path);

#endif /* GUEST_ATTACKS_TABLES_H */
