// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure what single operations cost on this machine that protection adds.
 *
 * A line for each has the times of all samples, in ns for so many operations:
 *
 *   @price: flush-page ops=1024 ns=91034,91002,...
 *   @price: ibpb absent: Operation not supported
 *
 * "user-key" is a write of the register of user mode's keys, done here; the
 * others are done by the benchmark in the kernel. Last come the ticks of the
 * CPU's counter, and "@price: done".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "por.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define RUN	"/sys/kernel/debug/kpkeys_bench/run"
#define SAMPLES	15
#define OPS	1024

/* Two register writes each, a TLB entry, a root with and without its TLB, and branches. */
static const char *const in_kernel[] = {
	"switch", "flush-page", "keep-root", "load-root", "ibpb",
};

static u64 now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void show(const char *name, const u64 *ns)
{
	unsigned int i;

	printf("@price: %s ops=%d ns=", name, OPS);
	for (i = 0; i < SAMPLES; i++)
		printf("%s%llu", i ? "," : "", (unsigned long long)ns[i]);
	putchar('\n');
}

static void show_absent(const char *name, const char *why)
{
	printf("@price: %s absent: %s\n", name, why);
}

/* === In the kernel === */

/* The time in the line that the kernel says; 0 with errno. */
static u64 sample_open(int fd, const char *name)
{
	static char line[4096];
	const char *found;
	ssize_t n = snprintf(line, sizeof(line), "%s 0 %d\n", name, OPS);

	if (write(fd, line, n) != n)
		return 0;
	n = pread(fd, line, sizeof(line) - 1, 0);
	if (n < 0)
		return 0;
	line[n] = '\0';
	found = strstr(line, " ns=");
	errno = EPROTO;
	return found ? strtoull(found + strlen(" ns="), NULL, 10) : 0;
}

static u64 sample_kernel(const char *name)
{
	int fd = open(RUN, O_RDWR | O_CLOEXEC), error;
	u64 ns;

	if (fd < 0)
		return 0;
	ns = sample_open(fd, name);
	error = errno;
	close(fd);
	errno = error;
	return ns;
}

static void measure_kernel(const char *name)
{
	/* The first warms up. */
	u64 ns[SAMPLES + 1];
	unsigned int i;

	for (i = 0; i <= SAMPLES; i++) {
		ns[i] = sample_kernel(name);
		if (!ns[i]) {
			show_absent(name, strerror(errno));
			return;
		}
	}
	show(name, ns + 1);
}

/* === In user mode === */

#ifdef __x86_64__
static bool has_keys(void)
{
	unsigned int a, b, c, d;

	/* OSPKE: the kernel has switched them on. */
	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c & 1u << 4;
}

static u64 read_keys(void)
{
	unsigned int low, high;

	asm volatile(".byte 0x0f,0x01,0xee" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

static inline void write_keys(u64 value)
{
	asm volatile(".byte 0x0f,0x01,0xef" : : "a"((unsigned int)value), "c"(0), "d"(0)
		     : "memory");
}

/* Access with a key that no memory here has. */
#define UNUSED	0x40000000u
#else
static bool has_keys(void)
{
	return por_exists();
}

static u64 read_keys(void)
{
	return por_read();
}

static inline void write_keys(u64 value)
{
	por_write(value);
}

#define UNUSED	POR_FIELD(7, POR_READ)
#endif

static u64 sample_user(u64 keys)
{
	u64 begin = now();
	unsigned int i;

	for (i = 0; i < OPS / 2; i++) {
		write_keys(keys ^ UNUSED);
		write_keys(keys);
	}
	return now() - begin;
}

static void measure_user(void)
{
	u64 ns[SAMPLES], keys;
	unsigned int i;

	if (!has_keys()) {
		show_absent("user-key", strerror(EOPNOTSUPP));
		return;
	}
	keys = read_keys();
	sample_user(keys);
	for (i = 0; i < SAMPLES; i++)
		ns[i] = sample_user(keys);
	show("user-key", ns);
}

int main(void)
{
	u64 ticks = cpu_counter(), ns = now();
	size_t i;

	measure_user();
	for (i = 0; i < ARRAY_SIZE(in_kernel); i++)
		measure_kernel(in_kernel[i]);
	/* Long enough to tell a rate. */
	usleep(100000);
	ns = now() - ns;
	ticks = cpu_counter() - ticks;
	printf("@price: counter ticks=%llu ns=%llu\n", (unsigned long long)ticks,
	       (unsigned long long)ns);
	puts("@price: done");
	return 0;
}
