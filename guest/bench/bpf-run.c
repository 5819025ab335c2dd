// SPDX-License-Identifier: GPL-2.0-only
/* A BPF program that does nothing, which the kernel runs for who loaded it. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench-user.h"

static int empty_program(void)
{
	static const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (unsigned long)code,
		.insn_cnt = ARRAY_SIZE(code),
		.license = (unsigned long)"GPL",
	};
	static int fd = -1;

	if (fd < 0)
		fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
	if (fd < 0)
		die("loading a BPF program: %s", strerror(errno));
	return fd;
}

void bpf_run(u64 runs)
{
	static const char packet[64];
	union bpf_attr attr = {
		.test.prog_fd = empty_program(),
		.test.repeat = runs,
		.test.data_in = (unsigned long)packet,
		.test.data_size_in = sizeof(packet),
	};

	if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr)))
		die("running a BPF program: %s", strerror(errno));
}
