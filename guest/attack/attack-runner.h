/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of the attack runner. */
#ifndef GUEST_ATTACK_RUNNER_H
#define GUEST_ATTACK_RUNNER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "attacks/common.h"

#define VULN_FILE	"/sys/kernel/debug/kpkeys_vuln/ctl"
#define WORK_DIR	"/tmp/redoubt-attack"
#define SECRET_NAME	"secret"
#define SECRET_FILE	WORK_DIR "/" SECRET_NAME
#define LOOT_FILE	WORK_DIR "/loot"
#define PTRACE_SCOPE	"/proc/sys/kernel/yama/ptrace_scope"

enum prize_kind {
	PRIZE_FILE,		/* a root-only file, to read and to alter */
	PRIZE_ROOT_PROGRAM,	/* the same, beside a program of root */
	PRIZE_DAEMON_PAGE,	/* the secret of a daemon that asks a page */
	PRIZE_DAEMON_REG,	/* the same, but it asks a register */
	PRIZE_DAEMON_MEMORY,	/* the same, but it answers nobody */
	PRIZE_DAEMON_KEY,	/* the key by which a daemon signs data */
	PRIZE_AGENT,		/* that of another program of the attacker's user */
	PRIZE_KERNEL,		/* a secret that a driver keeps */
	PRIZE_KEY,		/* a key of root that no program can read */
};

/* The prize of one run of one attack, and the words the attacker gets. */
struct prize {
	enum prize_kind kind;
	char token[TOKEN_LEN + 1];
	pid_t daemon;		/* 0 if there is none */
	int request;		/* the attacker's ends of the daemon's pipes, */
	int reply;		/* or -1 */
	char args[2][32];	/* what the attacker has to know */
};

/* Print a message for people and exit with status 2. */
#define fail(format, ...) do {						\
	fprintf(stderr, "attack: " format "\n", ##__VA_ARGS__);		\
	exit(2);							\
} while (0)

void prize_prepare(struct prize *prize, enum prize_kind kind);
bool prize_verify(struct prize *prize, const char *loot, const char **text);
void prize_remove(struct prize *prize);

void daemon_start(struct prize *prize);
bool daemon_stop(struct prize *prize);

#endif /* GUEST_ATTACK_RUNNER_H */
