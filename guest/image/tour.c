// SPDX-License-Identifier: GPL-2.0-only
/*
 * Go through the steps of one boot of a real machine, and restart it for the
 * next one.
 *
 * /etc/redoubt/steps has a line for each step of all boots, with tabs between:
 * entry of the boot menu, name, seconds that it may take, seconds after which
 * it is killed, words of a command. A step without a command takes the
 * messages of the kernel since the start of the boot.
 *
 * The journal is on the partition that the machine was started from, the only
 * thing that is written to: what begins and what ends. A step that has begun
 * in an earlier boot and did not end has taken the machine down, and is passed
 * over. An entry whose steps are done is taken out of the menu; the boot
 * loader then starts the next one. The last entry, without steps, is "finish".
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "files.h"
#include "journal.h"
#include "kernel-log.h"
#include "kmsg.h"

#define STEPS		"/etc/redoubt/steps"
#define ABOUT		"/etc/redoubt/image.json"
#define ESP		"/esp"
#define JOURNAL		ESP "/redoubt/journal.jsonl"
#define MENU		ESP "/loader/entries"
#define BLOCK		"/sys/class/block"
#define FINISH		"finish"
#define HARDWARE	"hardware"

/* A hub and a slow stick take that long. */
#define FIND_S		60
#define TELL_EVERY_S	30
#define ENOUGH_S	30
#define MOST_OUTPUT	(8u << 20)
#define MAX_STEPS	64
#define MAX_WORDS	64
#define KILLED		124

struct step {
	char *entry, *name;
	double seconds;
	unsigned int limit;
	char *words[MAX_WORDS + 1];
	bool begun, ended, died;
};

static struct step steps[MAX_STEPS];
static size_t nr_steps;
/* From the kernel's command line. */
static char entry[64], partition[64];
static unsigned int linger;
static bool kept;
/* How long steps of this boot took, and should have taken. */
static double took, expected;

/* On all consoles, as /dev/console is but one of them. */
__attribute__((format(printf, 1, 2)))
static void say(const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	kmsg("redoubt: %s\n", text);
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_BOOTTIME, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static void word_of(const char *line, const char *name, char *value, size_t size)
{
	const char *at = strstr(line, name);

	value[0] = '\0';
	if (at)
		snprintf(value, size, "%.*s", (int)strcspn(at + strlen(name), " "),
			 at + strlen(name));
}

static void read_command_line(void)
{
	char line[4096], number[16];

	if (!read_text("/proc/cmdline", line, sizeof(line)))
		line[0] = '\0';
	word_of(line, "redoubt.entry=", entry, sizeof(entry));
	word_of(line, "redoubt.partition=", partition, sizeof(partition));
	word_of(line, "redoubt.linger=", number, sizeof(number));
	linger = strtoul(number, NULL, 10);
}

/* === The partition === */

/* Is this the partition of our name? */
static bool is_ours(const char *device)
{
	char path[512], line[256], wanted[80];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), BLOCK "/%s/uevent", device);
	snprintf(wanted, sizeof(wanted), "PARTNAME=%s\n", partition);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		found |= !strcmp(line, wanted);
	if (file)
		fclose(file);
	return found;
}

static bool find(char *path, size_t size)
{
	DIR *all = opendir(BLOCK);
	struct dirent *one;
	bool found = false;

	while (all && !found && (one = readdir(all))) {
		found = is_ours(one->d_name);
		if (found)
			snprintf(path, size, "/dev/%s", one->d_name);
	}
	if (all)
		closedir(all);
	return found;
}

static void mount_partition(void)
{
	unsigned long flags = MS_SYNCHRONOUS | MS_NODEV | MS_NOEXEC | MS_NOSUID;
	double until = now() + FIND_S;
	char path[300];
	bool found;

	if (!partition[0]) {
		say("no partition was named: the results are on this screen only");
		return;
	}
	while (!(found = find(path, sizeof(path))) && now() < until)
		usleep(200000);
	if (!found) {
		say("found no partition '%s': the results are on this screen only", partition);
		return;
	}
	mkdir(ESP, 0755);
	if (mount(path, ESP, "vfat", flags, "")) {
		say("cannot mount %s: %s: the results are on this screen only", path,
		    strerror(errno));
		return;
	}
	mkdir(ESP "/redoubt", 0755);
	kept = true;
}

/* === The journal === */

static void add(char *line)
{
	if (kept && !journal_add(JOURNAL, line)) {
		say("cannot write the journal: %s", strerror(errno));
		kept = false;
	}
	free(line);
}

static void add_event(const char *step, const char *event)
{
	char *line;

	if (asprintf(&line, "{\"step\": \"%s\", \"event\": \"%s\"}", step, event) >= 0)
		add(line);
}

static void seen(const char *name, const char *event)
{
	char full[128];
	size_t i;

	for (i = 0; i < nr_steps; i++) {
		snprintf(full, sizeof(full), "%s/%s", steps[i].entry, steps[i].name);
		if (strcmp(full, name))
			continue;
		steps[i].begun = true;
		steps[i].ended |= !strcmp(event, "end");
		steps[i].died |= !strcmp(event, "died");
	}
}

/* The name of this machine, as a part of the name of a file. */
static void machine_name(char *name, size_t size)
{
	char line[256], *from = NULL;
	FILE *file = fopen("/proc/cpuinfo", "re");
	size_t used = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "model name", 10) && (from = strchr(line, ':')))
			break;
	if (file)
		fclose(file);
	if (!from && read_text("/sys/class/dmi/id/product_name", line, sizeof(line)))
		from = line;
	for (; from && *from && used < size - 1; from++) {
		if (isalnum((unsigned char)*from))
			name[used++] = tolower((unsigned char)*from);
		else if (used && name[used - 1] != '-')
			name[used++] = '-';
	}
	while (used && name[used - 1] == '-')
		used--;
	name[used] = '\0';
	if (!used)
		snprintf(name, size, "unknown");
}

/* The first line of a journal says which image writes it. */
static void begin_journal(void)
{
	static char about[65536];
	char *line;
	int fd = open(ABOUT, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, about, sizeof(about) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0 || !access(JOURNAL, F_OK))
		return;
	about[n] = '\0';
	about[strcspn(about, "\n")] = '\0';
	if (asprintf(&line, "{\"image\": %s}", about) >= 0)
		add(line);
}

static void publish(void)
{
	char machine[48], path[128];

	machine_name(machine, sizeof(machine));
	snprintf(path, sizeof(path), ESP "/results-%s.json", machine);
	if (!kept)
		return;
	if (journal_publish(JOURNAL, path))
		say("the results are in the file results-%s.json of this disk", machine);
	else
		say("cannot write %s: %s", path, strerror(errno));
}

/* === Steps === */

static bool read_steps(void)
{
	FILE *file = fopen(STEPS, "re");
	char *line = NULL, *rest, *field;
	size_t size = 0, words;

	while (file && nr_steps < MAX_STEPS && getline(&line, &size, file) > 0) {
		struct step *step = &steps[nr_steps++];

		line[strcspn(line, "\n")] = '\0';
		rest = strdup(line);
		step->entry = strsep(&rest, "\t");
		step->name = strsep(&rest, "\t");
		field = strsep(&rest, "\t");
		step->seconds = field ? strtod(field, NULL) : 0;
		field = strsep(&rest, "\t");
		step->limit = field ? strtoul(field, NULL, 10) : 0;
		for (words = 0; rest && words < MAX_WORDS; words++)
			step->words[words] = strsep(&rest, "\t");
		if (!step->limit) {
			say("cannot read " STEPS ": line %zu", nr_steps);
			return false;
		}
	}
	free(line);
	if (file)
		fclose(file);
	return nr_steps > 0;
}

/* Minutes that all steps may take that have not begun, at the pace of this boot. */
static unsigned int minutes_left(void)
{
	/* A short step says nothing of others. */
	double left = 0, pace = expected > ENOUGH_S ? took / expected : 1;
	size_t i;

	for (i = 0; i < nr_steps; i++)
		if (!steps[i].begun)
			left += steps[i].seconds;
	return (unsigned int)(left * pace / 60) + 1;
}

static pid_t start(char *const *words, int out)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	setsid();
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execv(words[0], words);
	fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
	_exit(127);
}

/* Messages of the kernel in a step that are not in the journal yet. */
struct messages {
	const char *step;
	int fd;
	FILE *file;
	char *text;
	size_t size;
};

static void add_messages(struct messages *said)
{
	char *line = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&line, &size);

	fclose(said->file);
	if (out) {
		fprintf(out, "{\"step\": \"%s\", \"event\": \"log\", \"log\": ", said->step);
		json_lines(out, said->text, said->size);
		fputc('}', out);
		fclose(out);
		add(line);
	}
	free(said->text);
	said->file = open_memstream(&said->text, &said->size);
}

/*
 * A program that says something in the kernel's log, as "@attack: ...", may have
 * done damage by which the machine dies soon: that goes to the journal at once.
 */
static void listen_to(struct messages *said)
{
	static char text[16384];

	while (said->file && log_next(said->fd, text, sizeof(text))) {
		fprintf(said->file, "%s\n", text);
		if (text[0] == '@')
			add_messages(said);
	}
}

/* Read what a command says until it ends, or its time is up. Returns an exit status. */
static int attend(const struct step *step, pid_t pid, int in, FILE *out, struct messages *said)
{
	double begun = now(), told = begun;
	struct pollfd wait[] = {
		{ .fd = said->fd, .events = POLLIN }, { .fd = in, .events = POLLIN },
	};
	size_t size = 0;
	char text[4096];
	int status = 0;
	bool killed = false, open = true, ended = false, spoke;
	ssize_t n;

	while (!ended) {
		spoke = poll(wait, 1 + open, 200) > 0 && open && wait[1].revents;
		if (spoke) {
			n = read(in, text, sizeof(text));
			open = n > 0;
			if (n > 0 && size < MOST_OUTPUT)
				size += fwrite(text, 1, n, out);
		}
		listen_to(said);
		/* Not before all that it said was read. */
		ended = !spoke && waitpid(pid, &status, WNOHANG) == pid;
		if (!killed && now() - begun > step->limit) {
			kill(-pid, SIGKILL);
			killed = true;
		}
		if (now() - told > TELL_EVERY_S) {
			told = now();
			say("    %.0f s, of about %.0f", told - begun, step->seconds);
		}
	}
	/* And processes that it left in the background. */
	kill(-pid, SIGKILL);
	if (killed)
		return KILLED;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int run_command(const struct step *step, FILE *out, struct messages *said)
{
	int fds[2], status = 125;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC)) {
		fprintf(out, "pipe: %s\n", strerror(errno));
		return status;
	}
	fflush(NULL);
	pid = start(step->words, fds[1]);
	close(fds[1]);
	if (pid > 0)
		status = attend(step, pid, fds[0], out, said);
	close(fds[0]);
	return status;
}

static void show(const char *text)
{
	while (*text) {
		say("    %.*s", (int)strcspn(text, "\n"), text);
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
}

static void run(struct step *step, const char *full)
{
	struct messages said = { .step = full, .fd = log_open(step->words[0] != NULL) };
	char *output = NULL, *line = NULL;
	size_t output_size = 0, line_size = 0;
	FILE *out = open_memstream(&output, &output_size);
	FILE *entry_line = open_memstream(&line, &line_size);
	double begun = now();
	int status = 0;

	said.file = open_memstream(&said.text, &said.size);
	if (!out || !said.file || !entry_line)
		return;
	if (step->words[0])
		status = run_command(step, out, &said);
	listen_to(&said);
	fclose(out);
	fclose(said.file);
	close(said.fd);
	if (step->words[0]) {
		took += now() - begun;
		expected += step->seconds;
	}
	if (!strcmp(step->name, HARDWARE))
		show(output);
	fprintf(entry_line,
		"{\"step\": \"%s\", \"event\": \"end\", \"status\": %d, \"seconds\": %.1f, \"output\": ",
		full, status, now() - begun);
	json_lines(entry_line, output, output_size);
	fputs(", \"log\": ", entry_line);
	json_lines(entry_line, said.text, said.size);
	fputc('}', entry_line);
	fclose(entry_line);
	add(line);
	step->ended = true;
	free(output);
	free(said.text);
	if (status)
		say("    ended with status %d", status);
}

static void run_steps(void)
{
	unsigned int left;
	char full[128];
	size_t i;

	for (i = 0; i < nr_steps; i++) {
		struct step *step = &steps[i];

		if (strcmp(step->entry, entry) || step->ended || step->died)
			continue;
		snprintf(full, sizeof(full), "%s/%s", step->entry, step->name);
		if (step->begun) {
			say("step %zu of %zu, %s: took the machine down", i + 1, nr_steps, full);
			add_event(full, "died");
			continue;
		}
		left = minutes_left();
		step->begun = true;
		/* First: a step that is on the screen when the power fails is in the journal. */
		add_event(full, "begin");
		say("step %zu of %zu, %s: about %.0f s; all: about %u min", i + 1, nr_steps, full,
		    step->seconds, left);
		run(step, full);
	}
}

/* === The end of a boot === */

static void tell_lost(void)
{
	size_t i;

	for (i = 0; i < nr_steps; i++)
		if (!steps[i].ended)
			say("%s/%s %s", steps[i].entry, steps[i].name,
			    steps[i].begun ? "took the machine down" : "never ran");
}

/* Is this file of the menu "NUMBER-ENTRY.conf", or that with a count of tries ("+2-1")? */
static bool is_entry(const char *file)
{
	size_t length = strlen(entry);

	file += strspn(file, "0123456789");
	return file[0] == '-' && !strncmp(file + 1, entry, length) &&
	       (file[length + 1] == '+' || file[length + 1] == '.');
}

static void leave_menu(void)
{
	DIR *menu = kept ? opendir(MENU) : NULL;
	struct dirent *one;
	char path[512];

	while (menu && (one = readdir(menu))) {
		snprintf(path, sizeof(path), MENU "/%s", one->d_name);
		if (is_entry(one->d_name) && unlink(path))
			say("cannot remove %s: %s", path, strerror(errno));
	}
	if (menu)
		closedir(menu);
}

static void wait_for_a_key(void)
{
	struct pollfd key = { .fd = STDIN_FILENO, .events = POLLIN };

	say("press Enter to power off; that happens by itself in %u s", linger);
	poll(&key, 1, linger * 1000);
}

int main(void)
{
	static const char boot[] = "{\"boot\": \"%s\", \"machine\": \"%s\"}";
	char machine[48], *line;
	bool last;

	read_command_line();
	last = !strcmp(entry, FINISH);
	if (!entry[0] || !read_steps()) {
		say("this boot has no work to do: start it by the menu of the disk");
		wait_for_a_key();
		return 1;
	}
	mount_partition();
	machine_name(machine, sizeof(machine));
	begin_journal();
	journal_read(JOURNAL, seen);
	if (asprintf(&line, boot, entry, machine) >= 0)
		add(line);
	run_steps();
	publish();
	if (last)
		tell_lost();
	else
		leave_menu();
	sync();
	if (kept && umount(ESP))
		say("cannot unmount: %s", strerror(errno));
	if (last || !kept) {
		say("done");
		wait_for_a_key();
		return 0;
	}
	say("boot '%s' is done: restarting", entry);
	reboot(RB_AUTOBOOT);
	say("cannot restart: %s; press reset", strerror(errno));
	pause();
	return 1;
}
