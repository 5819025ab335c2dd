// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit: does the CPU permit what the walk of at.c computes, for all base
 * permissions and overlays, and for privileged and unprivileged accesses?
 *
 * Two pages are mapped with an index of permissions that nothing else has, so
 * that PIR_EL1 and PIRE0_EL1 can be changed for them alone, and with a key of
 * their own. The CPU is asked by address translation instructions, and by
 * loads, stores and branches to these pages; there is no way to ask whether
 * user mode could execute them. A test of the walk that KVM has for nested
 * guests, on a CPU that can be trusted, or of an emulated CPU.
 *
 * at.c includes this file, as all it calls is static there.
 */
#include <kunit/test.h>
#include <linux/vmalloc.h>

#include <asm/cacheflush.h>
#include <asm/daifflags.h>
#include <asm/tlbflush.h>

/* No attribute of _PAGE_* gives this index, of PTE_PXN, which vmap() adds. */
#define AT_TEST_PI_IDX		6
#define AT_TEST_PO_IDX		6
#define AT_TEST_PROT		(_PAGE_DEFAULT | PTE_PXN | PTE_WRITE | \
				 FIELD_PREP_CONST(PTE_PO_IDX_MASK, AT_TEST_PO_IDX))
#define AT_TEST_ENCODINGS	16
#define AT_TEST_SHOWN		8
#define AT_TEST_RET		0xd65f03c0
#define AT_TEST_PERM_FAULT	ESR_ELx_FSC_PERM_L(3)

enum at_test_answer { AT_TEST_PERMITTED, AT_TEST_REFUSED, AT_TEST_ODD };

struct at_test_difference {
	const char *access;
	u8 priv, unpriv, por1, por0;
	bool pan, walk;
	enum at_test_answer cpu;
};

struct at_test {
	struct kvm *kvm;
	struct kvm_vcpu *vcpu;
	struct s1_walk_info wi;
	enum vcpu_sysreg pir, pire0, por, tcr2;
	void *pages;
	u64 code, data;
	/* The combination at hand. */
	u8 priv, unpriv, por1, por0;
	u64 accesses, differences;
	struct at_test_difference shown[AT_TEST_SHOWN];
};

/*
 * Vectors for an access that may fault: x0 gets the syndrome, and the next
 * instruction is executed, or after a branch the one that it returns to. The
 * kernel's own handlers know no way back from an instruction abort, and would
 * report overlay faults.
 */
static void __used at_test_vector_table(void)
{
	asm volatile("	.pushsection	.text, \"ax\"\n"
		     "	.balign	2048\n"
		     "at_test_vectors:\n"
		     "	.space	0x200\n"
		     "	mrs	x0, esr_el1\n"
		     "	ubfx	x16, x0, #26, #6\n"
		     "	cmp	x16, %0\n"
		     "	b.eq	1f\n"
		     "	mrs	x16, elr_el1\n"
		     "	add	x16, x16, #4\n"
		     "	msr	elr_el1, x16\n"
		     "	eret\n"
		     "1:	msr	elr_el1, x30\n"
		     "	eret\n"
		     "	.popsection\n"
		     : : "i" (ESR_ELx_EC_IABT_CUR));
}

/* Execute one instruction with the address in x1 and 0 in x0. */
#define at_test_real(insn, addr) ({					\
	register u64 __esr asm("x0") = 0;				\
	register u64 __addr asm("x1") = (addr);				\
									\
	asm volatile(insn "\n"						\
		     : "+r" (__esr)					\
		     : "r" (__addr)					\
		     : "x9", "x16", "x30", "cc", "memory");		\
	__esr;								\
})

#define at_test_translate(op, addr) ({					\
	asm volatile(__msr_s(op, "%x0") "isb\n"				\
		     : : "r" (addr) : "memory");			\
	read_sysreg_par();						\
})

static u64 at_test_vbar(void)
{
	u64 address;

	asm("adrp	%0, at_test_vectors\n"
	    "add	%0, %0, :lo12:at_test_vectors\n"
	    : "=r" (address));
	return address;
}

static void at_test_judge(struct at_test *at, const char *access, bool pan,
			  bool walk, bool fault, u64 fsc)
{
	enum at_test_answer cpu = AT_TEST_PERMITTED;

	if (fault)
		cpu = fsc == AT_TEST_PERM_FAULT ? AT_TEST_REFUSED : AT_TEST_ODD;
	at->accesses++;
	if (cpu == (walk ? AT_TEST_PERMITTED : AT_TEST_REFUSED))
		return;
	if (at->differences < AT_TEST_SHOWN) {
		at->shown[at->differences] = (struct at_test_difference) {
			.access	= access,
			.priv	= at->priv,
			.unpriv	= at->unpriv,
			.por1	= at->por1,
			.por0	= at->por0,
			.pan	= pan,
			.walk	= walk,
			.cpu	= cpu,
		};
	}
	at->differences++;
}

static void at_test_judge_par(struct at_test *at, const char *access, bool pan,
			      bool walk, u64 par)
{
	at_test_judge(at, access, pan, walk, par & SYS_PAR_EL1_F,
		      FIELD_GET(SYS_PAR_EL1_FST, par));
}

static void at_test_judge_esr(struct at_test *at, const char *access, bool pan,
			      bool walk, u64 esr)
{
	at_test_judge(at, access, pan, walk, esr, esr & ESR_ELx_FSC);
}

static struct s1_walk_result at_test_walk(struct at_test *at, bool pan)
{
	struct s1_walk_result wr = {
		.desc	= AT_TEST_PROT,
		.level	= 3,
	};

	at->wi.pan = pan;
	compute_s1_permissions(at->vcpu, &at->wi, &wr);
	return wr;
}

static void at_test_translations(struct at_test *at)
{
	struct s1_walk_result wr = at_test_walk(at, false);

	at_test_judge_par(at, "AT S1E1R", false, wr.pr,
			  at_test_translate(OP_AT_S1E1R, at->data));
	at_test_judge_par(at, "AT S1E1W", false, wr.pw,
			  at_test_translate(OP_AT_S1E1W, at->data));
	at_test_judge_par(at, "AT S1E0R", false, wr.ur,
			  at_test_translate(OP_AT_S1E0R, at->data));
	at_test_judge_par(at, "AT S1E0W", false, wr.uw,
			  at_test_translate(OP_AT_S1E0W, at->data));
}

/* With PAN set or clear; the kernel has it set. */
static void at_test_accesses(struct at_test *at, bool pan)
{
	struct s1_walk_result wr = at_test_walk(at, pan);
	u64 vectors = read_sysreg(vbar_el1);
	u64 load, store, fetch, unpriv_load, unpriv_store;

	write_sysreg_s(pan ? PSR_PAN_BIT : 0, SYS_PSTATE_PAN);
	at_test_judge_par(at, "AT S1E1RP", pan, wr.pr,
			  at_test_translate(OP_AT_S1E1RP, at->data));
	at_test_judge_par(at, "AT S1E1WP", pan, wr.pw,
			  at_test_translate(OP_AT_S1E1WP, at->data));

	write_sysreg(at_test_vbar(), vbar_el1);
	isb();
	load = at_test_real("ldr w9, [x1]", at->data);
	store = at_test_real("str wzr, [x1]", at->data);
	fetch = at_test_real("blr x1", at->code);
	unpriv_load = at_test_real("ldtr w9, [x1]", at->data);
	unpriv_store = at_test_real("sttr wzr, [x1]", at->data);
	write_sysreg(vectors, vbar_el1);
	isb();
	write_sysreg_s(PSR_PAN_BIT, SYS_PSTATE_PAN);

	at_test_judge_esr(at, "load", pan, wr.pr, load);
	at_test_judge_esr(at, "store", pan, wr.pw, store);
	at_test_judge_esr(at, "fetch", pan, wr.px, fetch);
	at_test_judge_esr(at, "unprivileged load", pan, wr.ur, unpriv_load);
	at_test_judge_esr(at, "unprivileged store", pan, wr.uw, unpriv_store);
}

static u64 at_test_field(u64 reg, int index, u8 encoding)
{
	return (reg & ~(0xfull << 4 * index)) | (u64)encoding << 4 * index;
}

/* All overlays of one pair of base permissions; takes milliseconds. */
static void at_test_overlays(struct at_test *at)
{
	u64 por1 = read_sysreg_s(SYS_POR_EL1), por0 = read_sysreg_s(SYS_POR_EL0);
	u64 pir = read_sysreg_s(SYS_PIR_EL1), pire0 = read_sysreg_s(SYS_PIRE0_EL1);
	u64 tcr2 = read_sysreg_s(SYS_TCR2_EL1), tcr = read_sysreg(tcr_el1);
	/* Without keys of the kernel nobody has set the register. */
	u64 kernel = tcr2 & TCR2_EL1_POE ? por1 : 0x77777777;
	unsigned long flags = local_daif_save();

	write_sysreg_s(kernel, SYS_POR_EL1);
	isb();
	write_sysreg_s(tcr2 | TCR2_EL1_POE | TCR2_EL1_E0POE, SYS_TCR2_EL1);
	write_sysreg(tcr & ~TCR_EL1_E0PD1, tcr_el1);
	write_sysreg_s(at_test_field(pir, AT_TEST_PI_IDX, at->priv), SYS_PIR_EL1);
	write_sysreg_s(at_test_field(pire0, AT_TEST_PI_IDX, at->unpriv),
		       SYS_PIRE0_EL1);
	isb();
	local_flush_tlb_all();
	__vcpu_assign_sys_reg(at->vcpu, at->tcr2, read_sysreg_s(SYS_TCR2_EL1));
	__vcpu_assign_sys_reg(at->vcpu, at->pir, read_sysreg_s(SYS_PIR_EL1));
	__vcpu_assign_sys_reg(at->vcpu, at->pire0, read_sysreg_s(SYS_PIRE0_EL1));

	for (at->por1 = 0; at->por1 < AT_TEST_ENCODINGS; at->por1++) {
		for (at->por0 = 0; at->por0 < AT_TEST_ENCODINGS; at->por0++) {
			u64 new1 = at_test_field(kernel, AT_TEST_PO_IDX, at->por1);
			u64 new0 = at_test_field(por0, AT_TEST_PO_IDX, at->por0);

			write_sysreg_s(new1, SYS_POR_EL1);
			write_sysreg_s(new0, SYS_POR_EL0);
			isb();
			__vcpu_assign_sys_reg(at->vcpu, at->por, new1);
			__vcpu_assign_sys_reg(at->vcpu, POR_EL0, new0);
			at_test_translations(at);
			at_test_accesses(at, false);
			at_test_accesses(at, true);
		}
	}

	write_sysreg_s(kernel, SYS_POR_EL1);
	write_sysreg_s(por0, SYS_POR_EL0);
	write_sysreg_s(pir, SYS_PIR_EL1);
	write_sysreg_s(pire0, SYS_PIRE0_EL1);
	write_sysreg(tcr, tcr_el1);
	write_sysreg_s(tcr2, SYS_TCR2_EL1);
	isb();
	local_flush_tlb_all();
	write_sysreg_s(por1, SYS_POR_EL1);
	isb();
	local_daif_restore(flags);
}

static void *at_test_map(struct page **pages)
{
	int i;

	for (i = 0; i < 2; i++) {
		pages[i] = alloc_page(GFP_KERNEL);
		if (!pages[i])
			return NULL;
		memset32(page_address(pages[i]), AT_TEST_RET, PAGE_SIZE / 4);
		flush_icache_range((unsigned long)page_address(pages[i]),
				   (unsigned long)page_address(pages[i]) + PAGE_SIZE);
	}
	return vmap(pages, 2, VM_MAP, __pgprot(AT_TEST_PROT));
}

static void at_test_describe(struct at_test *at, struct kvm *kvm,
			     struct kvm_vcpu *vcpu)
{
	bool vhe = is_kernel_in_hyp_mode();

	*__vm_id_reg(&kvm->arch, SYS_ID_AA64MMFR1_EL1) =
		read_sanitised_ftr_reg(SYS_ID_AA64MMFR1_EL1);
	*__vm_id_reg(&kvm->arch, SYS_ID_AA64MMFR3_EL1) =
		read_sanitised_ftr_reg(SYS_ID_AA64MMFR3_EL1);
	vcpu->kvm = kvm;
	at->vcpu = vcpu;
	at->pir = vhe ? PIR_EL2 : PIR_EL1;
	at->pire0 = vhe ? PIRE0_EL2 : PIRE0_EL1;
	at->por = vhe ? POR_EL2 : POR_EL1;
	at->tcr2 = vhe ? TCR2_EL2 : TCR2_EL1;
	at->wi = (struct s1_walk_info) {
		.regime	= vhe ? TR_EL20 : TR_EL10,
		.hpd	= true,
		.poe	= true,
		.e0poe	= true,
	};
}

static void the_cpu_permits_what_the_walk_does(struct kunit *test)
{
	static const char *const answers[] = { "permitted", "refused", "odd" };
	struct kvm_vcpu *vcpu = kvzalloc(sizeof(*vcpu), GFP_KERNEL);
	struct kvm *kvm = kvzalloc(sizeof(*kvm), GFP_KERNEL);
	struct page *pages[2] = {};
	struct at_test at = {};
	void *mapped;
	int i;

	if (!system_supports_poe()) {
		kvfree(kvm);
		kvfree(vcpu);
		kunit_skip(test, "this CPU has no overlays");
	}
	mapped = at_test_map(pages);
	KUNIT_EXPECT_TRUE(test, kvm && vcpu && mapped);
	if (kvm && vcpu && mapped) {
		at.code = (u64)mapped;
		at.data = (u64)mapped + PAGE_SIZE;
		at_test_describe(&at, kvm, vcpu);
		for (at.priv = 0; at.priv < AT_TEST_ENCODINGS; at.priv++) {
			for (at.unpriv = 0; at.unpriv < AT_TEST_ENCODINGS; at.unpriv++) {
				at_test_overlays(&at);
				cond_resched();
			}
		}
	}
	for (i = 0; i < AT_TEST_SHOWN && i < at.differences; i++) {
		struct at_test_difference *one = &at.shown[i];

		kunit_info(test, "PIR %x PIRE0 %x POR_EL1 %x POR_EL0 %x PAN %d: %s is %s, the walk %s it\n",
			   one->priv, one->unpriv, one->por1, one->por0,
			   one->pan, one->access, answers[one->cpu],
			   one->walk ? "permits" : "refuses");
	}
	kunit_info(test, "walker: %llu accesses, %llu differences\n",
		   at.accesses, at.differences);
	KUNIT_EXPECT_EQ(test, at.differences, 0);
	vunmap(mapped);
	for (i = 0; i < 2; i++)
		if (pages[i])
			__free_page(pages[i]);
	kvfree(kvm);
	kvfree(vcpu);
}

static struct kunit_case at_test_cases[] = {
	KUNIT_CASE_SLOW(the_cpu_permits_what_the_walk_does),
	{}
};

static struct kunit_suite at_test_suite = {
	.name = "arm64_walker",
	.test_cases = at_test_cases,
};

kunit_test_suite(at_test_suite);
