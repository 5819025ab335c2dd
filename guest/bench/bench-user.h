/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BENCH_USER_H
#define BENCH_USER_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler.h"

noreturn __attribute__((format(printf, 1, 2)))
void die(const char *format, ...);

void bpf_run(u64 runs);
void dm_crypt_read(u64 size);

void user_start(void);
bool user_sample(const char *workload, u64 size, unsigned int ops, char *line,
		 size_t room);

#endif
