// SPDX-License-Identifier: GPL-2.0-only
/// Stores to page table entries belong in helpers of the architecture such as
/// set_pte(): with CONFIG_KPKEYS_HARDENED_PGTABLES page tables are read-only
/// everywhere else, and the store causes an oops.
///
// Confidence: Moderate
// Comments: also reports entries in local variables or structures that are
//           reached through a pointer.
// Options: --no-includes --include-headers

virtual report

@store depends on report@
pgd_t *pgdp;
p4d_t *p4dp;
pud_t *pudp;
pmd_t *pmdp;
pte_t *ptep;
assignment operator op;
expression E;
position p;
@@

(
  *pgdp@p op E
|
  *p4dp@p op E
|
  *pudp@p op E
|
  *pmdp@p op E
|
  *ptep@p op E
|
  pgdp->pgd@p op E
|
  p4dp->p4d@p op E
|
  pudp->pud@p op E
|
  pmdp->pmd@p op E
|
  ptep->pte@p op E
|
  WRITE_ONCE(*pgdp@p, E)
|
  WRITE_ONCE(*p4dp@p, E)
|
  WRITE_ONCE(*pudp@p, E)
|
  WRITE_ONCE(*pmdp@p, E)
|
  WRITE_ONCE(*ptep@p, E)
)

@script:python depends on report@
p << store.p;
@@

msg = "store to a page table entry in %s()" % p[0].current_element
coccilib.report.print_report(p[0], msg)
