/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Small objects with a key of their own. Private to mm/kpkeys.
 */
#ifndef __MM_KPKEYS_OBJECTS_H
#define __MM_KPKEYS_OBJECTS_H

#include <linux/types.h>

/**
 * enum kpkeys_object_type - what an object is.
 * @KPKEYS_OBJECT_NONE: nothing: its page has no objects.
 * @KPKEYS_OBJECT_CRED: struct kpkeys_cred.
 * @KPKEYS_OBJECT_TASK: struct kpkeys_task.
 * @KPKEYS_NR_OBJECT_TYPES: number of types.
 *
 * A page has objects of one type, so that a pointer to an object of another
 * type is never taken for one of this.
 */
enum kpkeys_object_type {
	KPKEYS_OBJECT_NONE,
	KPKEYS_OBJECT_CRED,
	KPKEYS_OBJECT_TASK,
	KPKEYS_NR_OBJECT_TYPES
};

int kpkeys_objects_init(void);
void *kpkeys_object_alloc(enum kpkeys_object_type type);
void kpkeys_object_free(enum kpkeys_object_type type, void *object);
bool kpkeys_object_is(enum kpkeys_object_type type, const void *object);
void *kpkeys_object_search(enum kpkeys_object_type type, size_t offset,
			   unsigned long value);

#endif /* __MM_KPKEYS_OBJECTS_H */
