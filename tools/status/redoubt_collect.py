#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Collect what the image for real machines tells, on a system that runs one of our kernels.

It is installed with redoubt-status, whose view of the kernel it shares, and with static programs:
the standard library is all that it may import. It writes one file, and nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Root runs this: no file may appear beside the modules.
sys.dont_write_bytecode = True
import redoubt_status as status  # noqa: E402

HELP = """\
Reports on the hardware, and on the kernel that is running: its log of protections, results of
KUnit if there are any, the checkers, prices of single operations, and the time of workloads that
need nothing of the kernel. Shows everything, and writes results-MACHINE.json for redoubt import if
that is wanted. It needs root for debugfs, and changes nothing. With a file of an earlier boot, with
other protections of the same kernel, the results are added to it.

Exit status: 0 if the results are saved or shown, 1 if not, 2 for wrong usage.
"""

# Where the programs are, and what the package knows of itself.
PROGRAMS = Path(__file__).resolve().parent
ABOUT = "collect.json"
_TOLD = re.compile(r"KPKEYS_|MITIGATION_ADDRESS_SPACE_ISOLATION|X86_PKS|ARM64_POE|X86_MKTME")
_OURS = re.compile(r"(?:kpkeys|asi|x86/pks|x86/mktme|mktme): |Linux version ")
# Other words of the command line name disks and hosts.
_ARGUMENT = re.compile(
    r"(?:no)?(?:kpkeys|asi|mktme|mitigations|pti|pcid|kaslr|smt|spectre|pku|transparent_hugepage)"
    r"(?:[._=]\S*)?"
)  # fmt: skip
_PATIENCE_S = 600
_DONE = "@bench: done"


@dataclass(frozen=True)
class Said:
    """What a step came to: its status, its output, and messages of the kernel."""

    status: int = 0
    output: Sequence[str] = ()
    log: Sequence[str] = ()


Step = Callable[[], Said | None]


# === Steps =======================================================================================


def _run(program: str, *words: str) -> Said:
    """Run one of our programs."""
    try:
        done = subprocess.run(
            [PROGRAMS / program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Said(124, [f"{program}: took longer than {_PATIENCE_S} s"])
    return Said(done.returncode, done.stdout.splitlines())


def _hardware() -> Said:
    """The report on the hardware, without what the command line says of disks."""
    said = _run("hardware")
    lines = []
    for line in said.output:
        name, colon, value = line.partition(": ")
        if name == "command line":
            value = " ".join(word for word in value.split() if _ARGUMENT.fullmatch(word))
        lines.append(name + colon + value)
    return Said(said.status, lines)


def _file(kernel: status.Kernel, *names: str) -> Said | None:
    """Files of debugfs; None if this kernel does not have the first."""
    found = [kernel.root / "sys/kernel/debug" / name for name in names]
    if not found[0].exists():
        return None
    return Said(0, [line for file in found if file.exists() for line in _lines(file)])


def _lines(file: Path) -> list[str]:
    return file.read_text(errors="replace").splitlines()


def _kunit(kernel: status.Kernel) -> Said | None:
    """Results of KUnit since boot, as one report; None if there are none."""
    files = sorted((kernel.root / "sys/kernel/debug/kunit").glob("*/results"))
    reports = [_lines(file) for file in files]
    # Each begins with a version and a plan of its own.
    bodies = [[line for line in one if line not in ("KTAP version 1", "1..1")] for one in reports]
    bodies = [one for one in bodies if one]
    if not bodies:
        return None
    lines = ["KTAP version 1", f"1..{len(bodies)}", *(line for one in bodies for line in one)]
    number = 0
    for at, line in enumerate(lines):
        if found := re.match(r"((?:not )?ok) \d+ (.*)", line):
            number += 1
            lines[at] = f"{found[1]} {number} {found[2]}"
    return Said(0, (), lines)


def _bench(specs: Sequence[str], measured: list[str]) -> Said:
    """Each workload that this system has; `measured` gets what was asked of them."""
    lines: list[str] = []
    for spec in specs:
        said = _run("bench", spec)
        # A kernel may lack the system call.
        if said.status == 0 and _DONE in said.output:
            measured.append(spec)
            lines += [line for line in said.output if line != _DONE]
    return Said(0, [*lines, _DONE])


# === All of it ===================================================================================


def variant(kernel: status.Kernel) -> str:
    """The name of the way in which this kernel was started."""
    found = status.states(kernel)
    if found["page tables"][0] == status.ACTIVE:
        return "on"
    return "asi" if found["address space isolation"][0] == status.ACTIVE else "off"


def machine_name(hardware: Sequence[str]) -> str:
    """The name of the machine, as the image has it."""
    fields = dict(line.partition(": ")[::2] for line in hardware)
    name = fields.get("model name") or fields.get("product") or "unknown"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:47].rstrip("-") or "unknown"


def collect(kernel: status.Kernel, about: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of a journal, as the image writes them."""
    way, specs = variant(kernel), about["specs"]
    measured: list[str] = []
    log = [line.text for line in kernel.log if _OURS.match(line.text)]
    steps: dict[str, Step] = {
        f"kunit-{way}/kunit": lambda: _kunit(kernel),
        f"{way}/hardware": _hardware,
        f"{way}/log": lambda: Said(0, (), log),
        f"{way}/check": lambda: _file(kernel, "kpkeys/check") if way == "on" else None,
        f"{way}/audit": lambda: (
            _file(kernel, "asi/audit", "asi/switches") if way == "asi" else None
        ),
        f"{way}/prices": lambda: _run("prices"),
        f"{way}/bench": lambda: _bench(specs, measured),
    }
    lines: list[dict[str, Any]] = []
    machine = "unknown"
    for name, step in steps.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        begun = time.monotonic()
        said = step()
        if said is None:
            continue
        seconds = round(time.monotonic() - begun, 1)
        if name.endswith("/hardware"):
            machine = machine_name(said.output)
        lines += [
            {"step": name, "event": "begin"},
            {"step": name, "event": "end", "status": said.status, "seconds": seconds,
             "output": list(said.output), "log": list(said.log)},
        ]  # fmt: skip
    options = {f"CONFIG_{name}": "y" for name in sorted(kernel.options) if _TOLD.match(name)}
    names = [line["step"] for line in lines if line["event"] == "begin"]
    image = {**about, "collected": kernel.release, "options": options, "steps": names,
             "specs": measured}  # fmt: skip
    return [{"image": image}, {"boot": way, "machine": machine}, *lines]


def added(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Both journals as one.

    Raises Failure unless they are of one kernel and machine, started in two ways.
    """
    mine, other = new[0]["image"], old[0]["image"]
    boots = [line for line in old if "boot" in line]
    if mine["collected"] != other.get("collected") or mine["options"] != other["options"]:
        raise status.Failure(f"it is not of this kernel: {other.get('collected', 'an image')}")
    if any(line["machine"] != new[1]["machine"] for line in boots):
        raise status.Failure("it is of another machine")
    if any(line["boot"] == new[1]["boot"] for line in boots):
        raise status.Failure(f"it has results of this way to boot: {new[1]['boot']}")
    if mine["specs"] != other["specs"]:
        raise status.Failure("other workloads were measured in it")
    image = {**other, "steps": [*other["steps"], *mine["steps"]]}
    return [{"image": image}, *old[1:], *new[1:]]


def show(lines: Sequence[dict[str, Any]]) -> None:
    """Print all that a file will have."""
    print(json.dumps(lines[0]["image"], indent=1))
    for line in lines[1:]:
        if line.get("event") != "end":
            continue
        print(f"\n{line['step']}: status {line['status']}, {line['seconds']} s")
        for text in (*line["output"], *line["log"]):
            print(f"    {text}")
    print()


def _save(file: Path, lines: Sequence[dict[str, Any]]) -> None:
    text = ",\n".join(json.dumps(line) for line in lines)
    fresh = file.with_suffix(".new")
    fresh.write_text(f'{{"journal": [\n{text}\n]}}\n', encoding="ascii")
    fresh.rename(file)


def _journal(file: Path) -> list[dict[str, Any]]:
    try:
        lines: list[dict[str, Any]] = json.loads(file.read_text(encoding="ascii"))["journal"]
        # What is not there raises, too.
        [line["machine"] for line in lines if "boot" in line]
        _ = lines[0]["image"]["specs"], lines[0]["image"]["options"], lines[0]["image"]["steps"]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise status.Failure(f"{file} is no result of this program") from error
    return lines


def _wanted(file: Path) -> bool:
    """Ask whether to save."""
    try:
        return input(f"Save this as {file}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="redoubt-collect", description=HELP, allow_abbrev=False, formatter_class=status.Help,
    )  # fmt: skip
    parser.add_argument(
        "--add", type=Path, metavar="FILE", help="add to this file of an earlier boot"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--show", action="store_true", help="only show, and save nothing")
    kind.add_argument("--yes", action="store_true", help="save without asking")
    parser.add_argument(
        "--root", type=Path, default=Path("/"), metavar="DIR",
        help="read /proc, /sys, /dev and /boot below this directory",
    )  # fmt: skip
    return parser.parse_args(words)


def run(arguments: argparse.Namespace) -> int:
    """Collect, show and save; returns the exit status."""
    if os.geteuid() and arguments.root == Path("/"):
        raise status.Failure("debugfs is for root only: sudo redoubt-collect")
    about = json.loads((PROGRAMS / ABOUT).read_text())
    old = _journal(arguments.add) if arguments.add else None
    kernel = status.Kernel(arguments.root)
    if not any(kernel.has(one.option) for one in status.PROTECTIONS):
        raise status.Failure(f"{kernel.release} has none of the protections: start one of ours")
    lines = collect(kernel, about)
    file = arguments.add or Path(f"results-{lines[1]['machine']}.json")
    if not arguments.add and not arguments.show and file.exists():
        raise status.Failure(f"{file} is there already: move it away, or --add {file}")
    lines = added(old, lines) if old else lines
    show(lines)
    for line in kernel.trouble:
        print(f"redoubt-collect: {line}", file=sys.stderr)
    if arguments.show:
        return 0
    if not arguments.yes and not _wanted(file):
        print("redoubt-collect: nothing was saved", file=sys.stderr)
        return 1
    _save(file, lines)
    print(f"{file}: redoubt import takes it")
    return 0


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says; returns the exit status."""
    arguments = _arguments(words)
    return status.ended("redoubt-collect", lambda: run(arguments))


if __name__ == "__main__":
    sys.exit(main())
