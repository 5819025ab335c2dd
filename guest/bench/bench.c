// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drive the benchmark in the kernel, and print what it measured.
 *
 *   bench [--quiet=CYCLES] WORKLOAD:SIZE:OPS:SAMPLES[:WARMUP]...
 *
 * SIZE may end in K, M or G; what it means depends on the workload. First come
 * WARMUP samples that are thrown away (by default 1), then SAMPLES lines
 *
 *   @bench: workload=fork size=1048576 ops=4 ns=... host_ns=... ... sample=1
 *
 * and after the last spec "@bench: done". Anything that goes wrong ends the
 * run.
 *
 * With --quiet samples are taken while nobody else uses the core, as long as
 * there is patience for that (quiet.c); CYCLES is what the last line of an
 * earlier run said, "@quiet: CYCLES noisy=SAMPLES", or 0.
 *
 * Some workloads are run by this program and not by the kernel (bench-user.c);
 * host_ns, host_calls, tables and free_ns, which nobody knows then, are 0.
 *
 * The kernel's own test_vmalloc is no workload: without modules it runs at the
 * end of the boot, as the kernel's command line says, and prints to the log.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench-user.h"
#include "compiler.h"
#include "quiet.h"

#define RUN	"/sys/kernel/debug/kpkeys_bench/run"

struct spec {
	char workload[16];
	u64 size;
	unsigned int ops;
	unsigned int samples;
	unsigned int warmup;
};

void die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* === Specs === */

/* A number up to @max behind *@text, which is moved behind it. */
static bool number(const char **text, u64 max, bool suffixed, u64 *value)
{
	static const char suffixes[] = "KMG";
	const char *suffix;
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	if (errno)
		return false;
	if (suffixed && *end && (suffix = strchr(suffixes, *end))) {
		unsigned int shift = 10 * (suffix - suffixes + 1);

		if (*value > ULLONG_MAX >> shift)
			return false;
		*value <<= shift;
		end++;
	}
	*text = end;
	return *value <= max;
}

static bool field(const char **text, u64 max, bool suffixed, u64 *value)
{
	if (*(*text)++ != ':')
		return false;
	return number(text, max, suffixed, value);
}

static bool parse(const char *text, struct spec *spec)
{
	size_t length = strcspn(text, ":");
	u64 ops, samples, warmup = 1;

	if (!length || length >= sizeof(spec->workload) || !text[length])
		return false;
	memset(spec->workload, 0, sizeof(spec->workload));
	memcpy(spec->workload, text, length);
	text += length;
	if (!field(&text, ULLONG_MAX, true, &spec->size) ||
	    !field(&text, UINT_MAX, false, &ops) ||
	    !field(&text, UINT_MAX, false, &samples))
		return false;
	if (*text && !field(&text, UINT_MAX, false, &warmup))
		return false;
	spec->ops = ops;
	spec->samples = samples;
	spec->warmup = warmup;
	return !*text && ops;
}

/* === In the kernel === */

/* Take one sample; the kernel's line goes to @line, without its end. */
static void sample_kernel(const struct spec *spec, char *line, size_t size)
{
	int fd = open(RUN, O_RDWR | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		die("%s: %s (not in this kernel?)", RUN, strerror(errno));
	n = snprintf(line, size, "%s %llu %u\n", spec->workload,
		     (unsigned long long)spec->size, spec->ops);
	if (write(fd, line, n) != n)
		die("%s of size %llu, %u times: %s", spec->workload,
		    (unsigned long long)spec->size, spec->ops,
		    strerror(errno));
	n = pread(fd, line, size - 1, 0);
	if (n <= 0)
		die("%s: %s", RUN, n ? strerror(errno) : "nothing to read");
	close(fd);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

/* === All of it === */

static void sample(const struct spec *spec, char *line, size_t size)
{
	if (!user_sample(spec->workload, spec->size, spec->ops, line, size))
		sample_kernel(spec, line, size);
}

static bool quietly;
static unsigned int noisy;

/* Sample again until it was quiet before and after. */
static void sample_quietly(const struct spec *spec, char *line, size_t size)
{
	while (quiet_wait()) {
		sample(spec, line, size);
		if (quiet_still())
			return;
	}
	sample(spec, line, size);
	noisy++;
}

static void run(const struct spec *spec)
{
	static char line[4096];
	unsigned int i;

	for (i = 0; i < spec->warmup; i++)
		sample(spec, line, sizeof(line));
	for (i = 1; i <= spec->samples; i++) {
		if (quietly)
			sample_quietly(spec, line, sizeof(line));
		else
			sample(spec, line, sizeof(line));
		printf("@bench: %s sample=%u\n", line, i);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static const char option[] = "--quiet=";
	struct spec spec;
	const char *text;
	int i, first = 1;
	u64 cycles;

	user_start();
	if (argc > 1 && !strncmp(argv[1], option, strlen(option))) {
		text = argv[1] + strlen(option);
		if (!number(&text, ULLONG_MAX, false, &cycles) || *text)
			die("'%s' is not a number of cycles", argv[1]);
		quietly = true;
		quiet_start(cycles);
		first++;
	}
	if (argc <= first)
		die("usage: bench [--quiet=CYCLES] WORKLOAD:SIZE:OPS:SAMPLES[:WARMUP]...");
	/* A mistake in the last shall not show after minutes. */
	for (i = first; i < argc; i++)
		if (!parse(argv[i], &spec))
			die("'%s' is not WORKLOAD:SIZE:OPS:SAMPLES[:WARMUP]",
			    argv[i]);
	for (i = first; i < argc; i++) {
		parse(argv[i], &spec);
		run(&spec);
	}
	if (quietly)
		printf("@quiet: %llu noisy=%u\n",
		       (unsigned long long)quiet_best(), noisy);
	puts("@bench: done");
	return 0;
}
