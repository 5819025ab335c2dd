// SPDX-License-Identifier: GPL-2.0-only
/* Objects that the driver goes on using after it has freed them. */
#include "objects.h"

static unsigned int nr_objects, object_order;

static struct kpkeys_vuln_obj object_at(size_t page, unsigned int slot)
{
	return (struct kpkeys_vuln_obj) {
		.index = page >> object_order,
		.offset = page % (1UL << object_order) * page_size() +
			  slot * sizeof(u64),
	};
}

static u64 object_read(size_t page, unsigned int slot)
{
	struct kpkeys_vuln_obj o = object_at(page, slot);

	vuln_obj(KPKEYS_VULN_OBJ_READ, &o);
	return o.value;
}

static void object_write(size_t page, unsigned int slot, u64 value)
{
	struct kpkeys_vuln_obj o = object_at(page, slot);

	o.value = value;
	vuln_obj(KPKEYS_VULN_OBJ_WRITE, &o);
}

struct window objects_window(unsigned int objects, unsigned int order)
{
	nr_objects = objects;
	object_order = order;
	return (struct window) {
		.pages = (size_t)objects << order,
		.read = object_read,
		.write = object_write,
	};
}

/* Allocate all objects, then free all. */
void objects_free_in_use(void)
{
	struct kpkeys_vuln_obj o = { .order = object_order };

	for (o.index = 0; o.index < nr_objects; o.index++)
		vuln_obj(KPKEYS_VULN_OBJ_ALLOC, &o);
	for (o.index = 0; o.index < nr_objects; o.index++)
		vuln_obj(KPKEYS_VULN_OBJ_FREE, &o);
}
