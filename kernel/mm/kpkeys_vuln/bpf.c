// SPDX-License-Identifier: GPL-2.0-only
/* A verifier that is wrong: it lets a BPF program write anywhere. */
#include <linux/errno.h>
#include <linux/filter.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"

int kpkeys_vuln_bpf(void __user *arg)
{
	struct kpkeys_vuln_write w;
	struct bpf_prog *prog;
	int err;

	if (copy_from_user(&w, arg, sizeof(w)))
		return -EFAULT;

	const struct bpf_insn insns[] = {
		BPF_LD_IMM64(BPF_REG_1, w.addr),
		BPF_LD_IMM64(BPF_REG_2, w.value),
		BPF_STX_MEM(BPF_DW, BPF_REG_1, BPF_REG_2, 0),
		BPF_MOV64_IMM(BPF_REG_0, 0),
		BPF_EXIT_INSN(),
	};

	prog = bpf_prog_alloc(bpf_prog_size(ARRAY_SIZE(insns)), 0);
	if (!prog)
		return -ENOMEM;
	prog->len = ARRAY_SIZE(insns);
	prog->type = BPF_PROG_TYPE_SOCKET_FILTER;
	memcpy(prog->insnsi, insns, sizeof(insns));
	prog = bpf_prog_select_runtime(prog, &err);
	if (!err)
		bpf_prog_run_pin_on_cpu(prog, &w);
	bpf_prog_free(prog);
	return err;
}
