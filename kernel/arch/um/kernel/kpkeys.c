// SPDX-License-Identifier: GPL-2.0-only
/*
 * kpkeys on the host CPU's user protection keys (PKU).
 *
 * The UML kernel is a host process: its "linear map" is a file mapping, and
 * pkey_mprotect() tags pages. User processes of UML run in other host processes
 * and never see the key.
 */
#include <linux/cache.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kpkeys.h>
#include <linux/kpkeys_cred.h>
#include <linux/kpkeys_ledger.h>
#include <linux/kpkeys_secret.h>
#include <linux/kpkeys_state.h>
#include <linux/mm.h>
#include <linux/panic.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <arch.h>
#include <as-layout.h>
#include <os.h>
#include <sysdep/pkey.h>

/* Page fault error code: a write; refused by a protection key. */
#define UM_PF_WRITE	0x02
#define UM_PF_PK	0x20

int um_pku_active __ro_after_init;
unsigned int um_pkru_offset __ro_after_init;

static bool nopku __initdata;

static int __init um_kpkeys_early_nopku(char *arg)
{
	nopku = true;
	return 0;
}
early_param("nopku", um_kpkeys_early_nopku);

/**
 * arch_kpkeys_init() - Allocate the keys and set the boot CPU to the default.
 *
 * Context: boot, one CPU.
 * Return: NULL, or the reason why there are no protection keys.
 */
const char * __init arch_kpkeys_init(void)
{
	int err;

	BUILD_BUG_ON(UM_PKRU_SHADOW_NO_KEY != KPKEYS_LVL_PGTABLES);
	BUILD_BUG_ON(UM_PKRU_SHADOW_STATE != KPKEYS_LVL_STATE);
	BUILD_BUG_ON(UM_PKRU_SHADOW_CRED != KPKEYS_LVL_CRED);
	BUILD_BUG_ON(UM_PKRU_SHADOW_SECRET != KPKEYS_LVL_SECRET);

	if (nopku)
		return "disabled by nopku";

	err = os_pkey_alloc();
	if (err == -EBUSY)
		return "the host's first protection keys are taken";
	if (err)
		return "no protection keys on this host";

	um_pkru_offset = mc_pkru_offset();
	um_pku_active = 1;
	um_pku_reset();
	return NULL;
}

/* === Lifetime of the register =========================================== */

/**
 * um_pku_enter() - Start a signal handler at the default level.
 * @mc: the signal's mcontext_t.
 *
 * The host enters handlers without access to the key. sigreturn restores the
 * register from @mc, which may be forged meanwhile, so the ledger records
 * whether to raise the frame again.
 *
 * Context: start of each handler.
 */
void um_pku_enter(void *mc)
{
	unsigned long level;

	if (!um_pku_active)
		return;

	level = kpkeys_level_of(mc_get_pkru(mc));
	if (level != KPKEYS_LVL_DEFAULT) {
		um_write_pkru(UM_PKRU_PGTABLES);
		kpkeys_ledger_push((unsigned long)mc, level);
	}
	/* um_pku_reset() would check again for a key. */
	um_set_pkru_shadow(KPKEYS_LVL_DEFAULT);
	um_write_pkru(UM_PKRU_DEFAULT);
}

/**
 * um_pku_exit() - Let sigreturn restore the level of the interrupted code.
 * @mc: as passed to um_pku_enter().
 * @level: um_pkru_shadow() of the interrupted code.
 *
 * Context: end of each handler.
 */
void um_pku_exit(void *mc, int level)
{
	if (um_pku_active) {
		unsigned long raised = KPKEYS_LVL_DEFAULT;

		if (kpkeys_ledger_is_top((unsigned long)mc)) {
			raised = kpkeys_ledger_top_level();
			um_write_pkru(UM_PKRU_PGTABLES);
			kpkeys_ledger_pop();
			um_write_pkru(UM_PKRU_DEFAULT);
		}
		mc_set_pkru(mc, arch_kpkeys_level_reg(raised));
	}
	um_set_pkru_shadow(level);
}

/**
 * um_pku_switch() - End any raised level on a context switch.
 *
 * Context: the context switch, before the current task changes.
 */
void um_pku_switch(void)
{
	kpkeys_assert_current_default();
	um_pku_reset();
	if (um_pku_active && unlikely(!kpkeys_ledger_is_top(0))) {
		kpkeys_raise(KPKEYS_LVL_PGTABLES);
		kpkeys_ledger_clear();
		kpkeys_lower();
	}
}

/* === Tagging ============================================================ */

/*
 * Start of the file mapping of physical memory, which is executable. The kernel
 * image and the memory behind it, up to a 4 MB boundary, are below and not
 * executable.
 */
static unsigned long physmem_rwx_start __ro_after_init;

/**
 * um_kpkeys_set_physmem() - Tell where executable memory begins.
 * @start: address of the file mapping of physical memory.
 *
 * Context: boot, before the first arch_set_memory_pkey().
 */
void __init um_kpkeys_set_physmem(unsigned long start)
{
	physmem_rwx_start = start;
}

static int um_kpkeys_tag_range(unsigned long start, unsigned long end, int pkey)
{
	/*
	 * Keep the protection of the range: mappings that differ in protection
	 * never merge again, and the host limits their number.
	 */
	return os_pkey_mprotect((void *)start, end - start, 1, 1,
				start >= physmem_rwx_start, pkey);
}

/**
 * arch_set_memory_pkey() - Set the key of a range of the linear map.
 * @addr: start, page-aligned.
 * @numpages: length in pages, at least one.
 * @pkey: the key, at most arch_max_pkey().
 *
 * Costs a host system call.
 *
 * Return: 0; -EINVAL if the range is not in the linear map; -ENOMEM, possibly
 * with part of the range done, if the host runs out of mappings
 * (vm.max_map_count).
 */
int arch_set_memory_pkey(unsigned long addr, int numpages, int pkey)
{
	unsigned long end = addr + (unsigned long)numpages * PAGE_SIZE;
	unsigned long mid = clamp(physmem_rwx_start, addr, end);
	int err = 0;

	if (addr < uml_physmem || end > high_physmem || end <= addr)
		return -EINVAL;

	if (addr < mid)
		err = um_kpkeys_tag_range(addr, mid, pkey);
	if (!err && mid < end)
		err = um_kpkeys_tag_range(mid, end, pkey);
	return err;
}

/* === Tagged ranges, as the host sees them =============================== */

#define SMAPS_BUF	PAGE_SIZE

struct smaps_scan {
	struct kpkeys_range *ranges;
	int nr, max;
	unsigned long start, end;	/* of the current mapping */
};

static void um_kpkeys_smaps_line(struct smaps_scan *scan, const char *line)
{
	unsigned long start, end;
	struct kpkeys_range *last;
	int pkey;

	if (sscanf(line, "%lx-%lx ", &start, &end) == 2) {
		scan->start = start;
		scan->end = end;
		return;
	}

	if (sscanf(line, "ProtectionKey: %d", &pkey) != 1 ||
	    pkey == KPKEYS_PKEY_DEFAULT)
		return;

	if (scan->nr && scan->nr <= scan->max) {
		last = &scan->ranges[scan->nr - 1];
		if (last->end == scan->start && last->pkey == pkey) {
			last->end = scan->end;
			return;
		}
	}
	if (scan->nr < scan->max)
		scan->ranges[scan->nr] = (struct kpkeys_range) {
			.start = scan->start, .end = scan->end, .pkey = pkey,
		};
	scan->nr++;
}

/**
 * arch_kpkeys_tagged_ranges() - List ranges with a key other than the default.
 * @ranges: receives the ranges, in ascending order.
 * @max: size of @ranges.
 *
 * Asks the host, so that the checker does not depend on records.
 *
 * Context: may sleep.
 * Return: number of ranges, more than @max if they do not fit; or an error.
 */
int arch_kpkeys_tagged_ranges(struct kpkeys_range *ranges, int max)
{
	struct smaps_scan scan = { .ranges = ranges, .max = max };
	int fd, len, have = 0;
	char *buf, *line, *nl;

	buf = kmalloc(SMAPS_BUF, GFP_KERNEL);
	if (!buf)
		return -ENOMEM;

	fd = os_open_file("/proc/self/smaps", of_read(OPENFLAGS()), 0);
	if (fd < 0) {
		kfree(buf);
		return fd;
	}

	while ((len = os_read_file(fd, buf + have, SMAPS_BUF - 1 - have)) > 0) {
		have += len;
		buf[have] = '\0';
		for (line = buf; (nl = strchr(line, '\n')); line = nl + 1) {
			*nl = '\0';
			um_kpkeys_smaps_line(&scan, line);
		}
		have -= line - buf;
		memmove(buf, line, have);
	}

	os_close_file(fd);
	kfree(buf);
	return len < 0 ? len : scan.nr;
}

/* === Violations ========================================================= */

/**
 * arch_kpkeys_die() - End the current task, for lack of a die() in UML.
 * @regs: unused, um_kpkeys_fault() has printed them.
 * @code: unused.
 *
 * Context: the stack of the task that wrote, at the default level.
 */
void arch_kpkeys_die(struct pt_regs *regs, unsigned long code)
{
	dump_stack();
	add_taint(TAINT_DIE, LOCKDEP_NOW_UNRELIABLE);
	if (panic_on_oops)
		panic("Fatal exception");
}

/* Runs on the stack of the task that wrote, see mc_call(). */
static void __noreturn um_kpkeys_violation_die(void)
{
	/* sigreturn restored the level of the interrupted code. */
	um_pku_reset();
	kpkeys_violation_die(NULL, 0);
}

/* The host tells, but not to here. */
static int um_kpkeys_pkey_of(unsigned long addr)
{
	const struct kpkeys_ledger *ledger;
	int cpu;

	if (kpkeys_is_state((void *)addr, 1))
		return KPKEYS_PKEY_STATE;
	if (kpkeys_is_object_memory((void *)addr))
		return KPKEYS_PKEY_CRED;
	if (kpkeys_is_secret((void *)addr, 1))
		return KPKEYS_PKEY_SECRET;
	/* Before secrets comes the page that says which there are. */
	if (kpkeys_is_secret((void *)(addr + PAGE_SIZE), 1))
		return KPKEYS_PKEY_LEDGER;
	for_each_possible_cpu(cpu) {
		ledger = per_cpu_ptr(&kpkeys_ledger, cpu);
		if (addr - (unsigned long)ledger < sizeof(*ledger))
			return KPKEYS_PKEY_LEDGER;
	}
	return KPKEYS_PKEY_PGTABLES;
}

/**
 * um_kpkeys_fault() - Handle a kernel fault that a protection key caused.
 * @fi: fault information of the host.
 * @ip: the faulting instruction.
 * @regs: registers at the fault.
 * @mc: the signal's mcontext_t, changed to resume elsewhere.
 *
 * Context: signal handler.
 * Return: true if a key caused it; the handler then returns, to a fixup if a
 * test expects the violation.
 */
bool um_kpkeys_fault(const struct faultinfo *fi, unsigned long ip,
		     struct uml_pt_regs *regs, void *mc)
{
	struct kpkeys_violation violation = {
		.addr = FAULT_ADDRESS(*fi),
		.ip = ip,
		.is_read = !(fi->error_code & UM_PF_WRITE),
	};

	if (!um_pku_active || !(fi->error_code & UM_PF_PK) || !mc)
		return false;

	violation.pkey = um_kpkeys_pkey_of(violation.addr);
	violation.pkey_reg = mc_get_pkru(mc);
	kpkeys_report_violation(&violation);

	/* UML has no fixup other than that of the nofault accessors. */
	if (kpkeys_violation_is_expected() && current->pagefault_disabled &&
	    current->thread.segv_continue) {
		mc_set_rip(mc, current->thread.segv_continue);
		current->thread.segv_continue = NULL;
		return true;
	}

	show_regs(container_of(regs, struct pt_regs, regs));
	mc_call(mc, um_kpkeys_violation_die);
	return true;
}
