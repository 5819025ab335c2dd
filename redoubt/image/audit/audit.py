# SPDX-License-Identifier: GPL-2.0-only
"""Audit of every instruction in a kernel image that can write the pkey register.

The protection rests on one claim: nothing callable sets the register to a value an attacker
chooses, or leaves it raised. This module disassembles the final image (for UML that includes the C
library it is linked with) and checks the claim on the instructions themselves:

* ``non-constant``: a writer whose value is not a compile-time constant;
* ``unknown-selector``: a writer of some register out of many (an MSR), and it is not plain that it
  is another one than the pkey register: by a number that is a constant, or by a comparison right in
  front of it;
* ``unknown-value``: a constant that is not the register value of a known level;
* ``outlined-helper``: a level-switch helper that exists as a function of its own, although it must
  be inlined everywhere (an out-of-line copy is a gadget that takes the level as an argument);
* ``leaves-raised``: a writer of a raised level from which some path leaves the function without
  passing a write of the default, so that the caller gets the raised level. Of conditions only
  those are understood that ask whether a register has the constant that was put in it on the path:
  so a guard remembers whether it raised;
* ``unwritten-level``: a level nothing writes, meaning the audit looked at a kernel without the
  feature or recognises its instructions no longer; without this rule such an audit would pass;
* ``stale-entry``: an entry of the allow-list that excuses nothing.

``non-constant``, ``unknown-selector`` and ``leaves-raised`` can be excused, function by function
and with a reason, in the allow-list (a TOML file, see configs/audit/um.toml).

How a value is found, and what counts as a constant, is said in x86.py; in arm64.py it is done
by simpler means. Anything that is not plainly a constant counts as none, so a mistake is a false
alarm and not a pass.

Not findings, by the threat model: bytes that spell such an instruction inside another one, or in a
place execution never begins at. To use them an attacker must already have diverted control flow,
which the threat model excludes (and other defences look after). Their number is reported for
information. Nor can a disassembly show writes of the register by the host: it restores the value
in a signal frame when a handler returns.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from redoubt.core.errors import RedoubtError
from redoubt.image.audit import arm64, x86
from redoubt.image.audit.policy import Policy, Rule, load_policy
from redoubt.image.audit.site import Site
from redoubt.image.elf import EM_AARCH64, Elf
from redoubt.image.functions import base_name


@dataclass(frozen=True)
class Finding:
    """One broken rule. `function` and `address` say where, as far as that makes sense."""

    rule: Rule
    message: str
    function: str | None = None
    address: int | None = None


@dataclass(frozen=True)
class Report:
    """What the audit saw.

    `cleared` are instructions of a kind that can write the register but which, by a constant
    selector, do not. `embedded` counts the encoding's occurrences that are not an instruction.
    """

    image: Path
    sites: tuple[Site, ...]
    cleared: tuple[Site, ...]
    findings: tuple[Finding, ...]
    embedded: int

    @property
    def ok(self) -> bool:
        """True if no rule is broken."""
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        """The report as plain values, addresses and values as hexadecimal strings."""

        def plain(item: Site | Finding) -> dict[str, Any]:
            return {
                name: f"{value:#x}" if type(value) is int else value
                for name, value in vars(item).items()
            }

        return {
            "image": str(self.image),
            "ok": self.ok,
            "sites": [plain(item) for item in self.sites],
            "cleared": [plain(item) for item in self.cleared],
            "findings": [plain(item) for item in self.findings],
            "embedded": self.embedded,
        }


def render(report: Report) -> list[str]:
    """The report as lines of text: the sites, the findings, the verdict."""
    rows = [
        (f"{site.address:x}", _value_text(site), site.function, site.instruction)
        for site in report.sites
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True))
        + (f"  allowed: {site.excuse}" if site.excuse else "")
        for row, site in zip(rows, report.sites, strict=True)
    ]
    lines += [
        f"{site.address:x}  {site.function}: {site.instruction} leaves the register alone"
        for site in report.cleared
    ]
    for finding in report.findings:
        where = "" if finding.address is None else f"{finding.address:x} "
        lines.append(f"FINDING {finding.rule}: {where}{finding.message}")
    certain = [site for site in report.sites if site.certain]
    count = len(certain)
    functions = len({site.function for site in certain})
    constant = sum(site.value is not None for site in certain)
    others = len(report.sites) - count
    lines.append(
        f"{count} writers of the pkey register in {functions} functions: {constant} constant, "
        f"{count - constant} not; {len(report.cleared)} cleared by their mask; "
        + (f"{others} of a register that is not known; " if others else "")
        + f"{report.embedded} embedded byte sequences (not instructions)"
    )
    lines.append("audit: clean" if report.ok else f"audit: {len(report.findings)} findings")
    return lines


def _value_text(site: Site) -> str:
    if site.value is None:
        return "not constant" if site.certain else "any register"
    return f"{site.value:#010x} ({site.level or 'unknown'})"


def audit(vmlinux: Path, allow: Path) -> Report:
    """Audit the image `vmlinux` by the allow-list `allow`.

    Raises RedoubtError if either cannot be used (missing, stripped, another architecture);
    broken rules are not errors but findings in the report.
    """
    policy = load_policy(allow)
    elf = Elf(vmlinux)
    if elf.machine != policy.isa.machine:
        raise RedoubtError(f"{vmlinux} is for another machine than {allow.name} describes")
    names = {
        symbol.name
        for symbol in elf.symbols
        if symbol.names_place
        and symbol.section < len(elf.sections)
        and elf.sections[symbol.section].code
    }
    if not names:
        raise RedoubtError(
            f"{vmlinux} has no symbols, so nothing in it has a name", "audit the unstripped image"
        )
    cleared: list[Site] = []
    if policy.isa.machine == EM_AARCH64:
        sites = arm64.sites(elf, policy)
    else:
        sites, cleared = x86.sites(elf, policy)
    judged, findings = _judge(policy, sites, names)
    occurrences = spelled = 0
    if policy.isa.encoding:
        occurrences = sum(
            section.data.count(policy.isa.encoding) for section in elf.sections if section.code
        )
        spelled = sum(
            site.instruction.split()[-1] in policy.isa.writers[0].mnemonics
            for site in (*sites, *cleared)
        )
    embedded = max(occurrences - spelled, 0)
    return Report(vmlinux, tuple(judged), tuple(cleared), tuple(findings), embedded)


def _broken(site: Site) -> tuple[Rule, str] | None:
    """The rule that a writer breaks, and how."""
    if site.value is None and not site.certain:
        return Rule.UNKNOWN_SELECTOR, f"{site.instruction} may be of the pkey register"
    if site.value is None:
        return Rule.NON_CONSTANT, f"{site.instruction} writes a value that is not a constant"
    if site.level is None:
        return Rule.UNKNOWN_VALUE, f"{site.value:#x} is the register value of no level"
    if site.left is not None:
        return Rule.LEAVES_RAISED, (
            f"raises to level {site.level}, and a path leaves the function at {site.left:x} "
            "without a write of the default"
        )
    return None


def _judge(policy: Policy, sites: list[Site], names: set[str]) -> tuple[list[Site], list[Finding]]:
    """Apply the rules: the sites, each with its excuse, and the findings."""
    judged: list[Site] = []
    findings: list[Finding] = []
    stale = {key: one for key, one in policy.excuses.items() if not one.optional}
    for site in sites:
        excuse = None
        if broken := _broken(site):
            rule, how = broken
            key = (base_name(site.function), rule)
            excuse = policy.excuses.get(key)
            stale.pop(key, None)
            if excuse is None:
                message = f"{site.function}: {how}"
                findings.append(Finding(rule, message, site.function, site.address))
        judged.append(replace(site, excuse=excuse.reason) if excuse else site)
    findings += [
        Finding(
            Rule.OUTLINED_HELPER,
            f"{name}: this helper exists as a function; it must be inlined everywhere",
            name,
        )
        for name in sorted(names)
        if any(fnmatch.fnmatchcase(base_name(name), pattern) for pattern in policy.helpers)
    ]
    written = {site.level for site in sites if site.certain}
    findings += [
        Finding(
            Rule.UNWRITTEN_LEVEL,
            f"nothing writes level {level} ({value:#x}): is this a kernel with the feature?",
        )
        for level, value in policy.levels.items()
        if level not in written
    ]
    findings += [
        Finding(
            Rule.STALE_ENTRY,
            f"{function}: allow-list entry for {rule} excuses nothing; remove it",
            function,
        )
        for function, rule in stale
    ]
    return judged, findings
