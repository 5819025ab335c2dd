/* SPDX-License-Identifier: GPL-2.0-only */
/* Argument vectors kept in files. */
#ifndef GUEST_ARGS_H
#define GUEST_ARGS_H

char **read_args(const char *path);

#endif /* GUEST_ARGS_H */
