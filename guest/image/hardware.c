// SPDX-License-Identifier: GPL-2.0-only
/*
 * Report on the machine, a line "name: value" each, without what identifies
 * it: only what is named here is told, and no serial number or address is.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "compiler.h"
#include "files.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* Fields of the first CPU. */
static const char *const cpu_fields[] = {
	"vendor_id", "cpu family", "model", "model name", "stepping", "microcode",
	"cache size", "flags", "bugs", "Features", "CPU implementer",
	"CPU architecture", "CPU variant", "CPU part", "CPU revision",
};

static const struct { const char *name, *path; } files[] = {
	{ "cpus", "/sys/devices/system/cpu/online" },
	{ "smt", "/sys/devices/system/cpu/smt/active" },
	{ "nodes", "/sys/devices/system/node/online" },
	{ "clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource" },
	{ "governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor" },
	{ "vendor", "/sys/class/dmi/id/sys_vendor" },
	{ "product", "/sys/class/dmi/id/product_name" },
	{ "board", "/sys/class/dmi/id/board_name" },
	{ "firmware", "/sys/class/dmi/id/bios_version" },
	{ "firmware date", "/sys/class/dmi/id/bios_date" },
	{ "command line", "/proc/cmdline" },
};

static void tell(const char *name, const char *path)
{
	static char text[8192];

	if (read_text(path, text, sizeof(text)) && *text)
		printf("%s: %s\n", name, text);
}

static void tell_cpu(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char *line = NULL, *colon;
	size_t size = 0, i;

	if (!file)
		return;
	/* The first empty line ends the first CPU. */
	while (getline(&line, &size, file) > 1) {
		colon = strchr(line, ':');
		if (!colon)
			continue;
		for (i = 0; i < ARRAY_SIZE(cpu_fields); i++) {
			size_t length = strlen(cpu_fields[i]);

			if (!strncmp(line, cpu_fields[i], length) &&
			    strspn(line + length, "\t ") == (size_t)(colon - line) - length)
				printf("%s:%s", cpu_fields[i], colon + 1);
		}
	}
	free(line);
	fclose(file);
}

static void say(const char *name, bool there)
{
	printf("%s: %s\n", name, there ? "yes" : "no");
}

/* As the CPU says itself, whatever the kernel makes of it. */
static void tell_keys(void)
{
#ifdef __x86_64__
	unsigned int a, b, c = 0, d;

	__get_cpuid(1, &a, &b, &c, &d);
	say("hypervisor", c & 1u << 31);
	say("pcid", c & 1u << 17);
	b = c = 0;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	say("invpcid", b & 1u << 10);
	say("pku", c & 1u << 3);
	say("la57", c & 1u << 16);
	say("tme", c & 1u << 13);
	say("pks", c & 1u << 31);
#else
	/* User mode does not see ID_AA64MMFR3_EL1; the kernel lists "poe" if all CPUs have it. */
	static char line[4096];
	FILE *file = fopen("/proc/cpuinfo", "re");
	bool poe = false;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "Features", 8))
			poe = strstr(line, " poe") != NULL;
	if (file)
		fclose(file);
	say("poe", poe);
#endif
}

static void tell_memory(void)
{
	char path[64], name[64];
	int node;

	printf("memory: %llu kB\n", number_in("/proc/meminfo", "MemTotal:"));
	for (node = 0; node < 64; node++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
		snprintf(name, sizeof(name), "node %d cpus", node);
		tell(name, path);
	}
}

static void tell_bugs(void)
{
	static const char where[] = "/sys/devices/system/cpu/vulnerabilities";
	struct dirent **list;
	char path[512];
	int i, count = scandir(where, &list, NULL, alphasort);

	for (i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", where, list[i]->d_name);
		if (list[i]->d_name[0] != '.')
			tell(list[i]->d_name, path);
		free(list[i]);
	}
	if (count >= 0)
		free(list);
}

int main(void)
{
	struct utsname kernel;
	size_t i;

	tell_cpu();
	tell_keys();
	tell_memory();
	for (i = 0; i < ARRAY_SIZE(files); i++)
		tell(files[i].name, files[i].path);
	say("efi", !access("/sys/firmware/efi", F_OK));
	tell_bugs();
	if (!uname(&kernel))
		printf("kernel: %s %s\n", kernel.release, kernel.version);
	return 0;
}
