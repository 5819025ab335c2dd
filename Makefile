# SPDX-License-Identifier: GPL-2.0-only
#
# Each target calls the tool; what it needs is set up on the way.

REDOUBT := .venv/bin/redoubt
SPHINX := .venv/bin/sphinx-build
SITE := build/site
CACHES := .mypy_cache .pytest_cache .ruff_cache redoubt.egg-info

demo: setup				## attack the um kernel, unprotected and protected
	@$(REDOUBT) attack um

test: style				## all tests of the tool and of the protected kernels
	@scripts/prerequisites lint x86_64 arm64
	@$(REDOUBT) test um x86_64 x86_64-mktme arm64

test-quick: style			## what shows most of um in three minutes, while you work
	@$(REDOUBT) test --quick

test-long: test-long-um test-long-x86_64 test-long-arm64	## the same and the slow ones; writes results/

test-long-%: setup
	@scripts/prerequisites lint $(filter-out um,$*) $(if $(filter x86_64,$*),selftests)
	@$(REDOUBT) test $* --long --json results/$@.json

selftests: setup			## the kernel's own tests of mm, on pristine x86-64 and ours
	@scripts/prerequisites x86_64 selftests
	@$(REDOUBT) selftests x86_64

selftests-arm64: setup			## the same on arm64
	@scripts/prerequisites arm64
	@$(REDOUBT) selftests arm64

selftests-bpf: setup			## its tests of BPF, the same way
	@scripts/prerequisites x86_64 selftests bpf
	@$(REDOUBT) selftests x86_64 bpf

check: setup				## compare page tables and their keys after boot and under stress
	@$(REDOUBT) check um

bench: setup				## measure what protection costs; writes results/
	@$(REDOUBT) bench um --json results/bench-um.json

bench-x86_64: setup			## the same on x86-64: instructions and events, as QEMU runs it
	@scripts/prerequisites x86_64
	@$(REDOUBT) bench x86_64 --json results/bench-x86_64.json

bench-arm64: setup			## the same on arm64
	@scripts/prerequisites arm64
	@$(REDOUBT) bench arm64 --json results/bench-arm64.json

exits-x86_64: setup			## exits of the restricted address space; writes results/
	@scripts/prerequisites x86_64
	@$(REDOUBT) exits x86_64 --json results/exits-x86_64.json

linear-map: setup			## what creating the linear map of arm64 takes; writes results/
	@scripts/prerequisites arm64
	@$(REDOUBT) linear-map arm64 --json results/linear-map-arm64.json

report: setup				## one HTML page of all that is in results/
	@$(REDOUBT) report

series: setup				## export the queue as mails for git am
	@$(REDOUBT) series

deb: setup				## Debian packages of the protected kernel, in build/deb
	@scripts/prerequisites deb x86_64
	@$(REDOUBT) deb x86_64

deb-arm64: setup			## the same for arm64
	@scripts/prerequisites deb deb-arm64 arm64
	@$(REDOUBT) deb arm64

man: setup				## manual pages, in build/man, from --help
	@scripts/prerequisites man
	@scripts/man $(REDOUBT) build/man

style: setup				## ruff and mypy
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

docs: setup				## the documents as a site, in build/site
	@$(SPHINX) -EWq --keep-going -c docs . $(SITE)

lint: style docs			## the same, the site, checkpatch, W=1, sparse and the documentation
	@scripts/prerequisites lint x86_64 arm64
	@$(REDOUBT) lint um x86_64 x86_64-mktme arm64

setup: prerequisites .venv/ready	## install the tool into .venv

prerequisites:
	@scripts/prerequisites

# Also when this directory was moved, which an environment does not survive.
.venv/ready: pyproject.toml $(if $(filter $(CURDIR),$(file <.venv/ready)),,again) | prerequisites
	@scripts/setup

clean:					## remove what was built here; the download and ccache stay
	rm -rf build .venv .setup.lock .setup.log $(CACHES)

help:					## this list
	@sed -n 's/^\([a-z0-9_-]*\):.*## /\1\t/p' Makefile

again:
.PHONY: demo test test-quick test-long selftests selftests-arm64 selftests-bpf check bench bench-x86_64 bench-arm64 \
	exits-x86_64 linear-map report series deb deb-arm64 man style docs lint setup prerequisites clean help again
