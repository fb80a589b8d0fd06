# The commands of this project; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := $(wildcard src tests benchmarks examples)
RUST := $(wildcard rust/*.toml rust/*.lock rust/*/*.toml rust/*/src/*.rs rust/*/src/*/*.rs rust/*/src/*.o)
CARGO := cargo

# What the tests need from the system, as command=package of Debian.
SYSTEM_PACKAGES := unshare=util-linux mount=mount openssl=openssl strace=strace java=default-jre-headless chromium=chromium
SYSTEM_PACKAGES += h5dump=hdf5-tools ncdump=netcdf-bin
SYSTEM_PACKAGES += munged=munge slurmctld=slurmctld slurmd=slurmd sbatch=slurm-client
SYSTEM_PACKAGES += fio=fio
SYSTEM_PACKAGES += parallel=parallel sshd=openssh-server ssh=openssh-client
SYSTEM_PACKAGES += ip=iproute2 sshfs=sshfs socat=socat tcpdump=tcpdump
SYSTEM_PACKAGES += podman=podman runc=runc busybox=busybox-static
SYSTEM_PACKAGES += nft=nftables ping=iputils-ping iperf3=iperf3 ethtool=ethtool
# The headers of FUSE have no command: they are installed together with its mount helper.
SYSTEM_PACKAGES += gcc=build-essential pkg-config=pkg-config fusermount3=fuse3 mount.fuse3=libfuse3-dev fuse2fs=fuse2fs

# Python keeps what it compiled: the tests start thousands of processes that import the package.
unexport PYTHONDONTWRITEBYTECODE

# What is built once is not built again from what was left.
ifdef CI
export CARGO_INCREMENTAL := 0
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo tierfs links scratch filecalls filecalls-object storage-picture test test-all programs rust-tests lint engines compare campaign mutants bench bench-spark bench-staging sanitize fuzz docs wheel changelog clean system-packages

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-base ## run the main job on a real brain volume
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

# A directory through FUSE that is as slow as another storage; wheels do not have it.
tierfs: $(VENV)/bin/hyperslab-tierfs ## build the program behind 'hyperslab tiers emulate'

# A switch between network namespaces whose links are slow, distant or lossy; wheels do not have it.
links: $(VENV)/bin/hyperslab-links ## build the program behind the emulated links of a network lab

# A directory for temporary files, whose names are in memory and whose contents are in one file.
scratch: $(VENV)/bin/hyperslab-scratch ## build the program behind 'hyperslab scratch'

# Calls of a command that have to do with files, seen by a program in the kernel.
filecalls: $(VENV)/bin/hyperslab-filecalls ## build the program behind counting by eBPF

# The part of it that runs in the kernel is kept as it was compiled: who builds the rest needs no compiler for it.
filecalls-object: $(VENV)/.installed-release ## compile that part again, after a change to it
	@cd rust/filecalls/src && $(CURDIR)/$(BIN)/python -m ziglang cc -target bpfel-freestanding-none -mcpu=v3 -g -O2 \
		-Wall -Wextra -Werror -fdebug-prefix-map=$$PWD=. \
		-DDIGEST="\"$$(sha256sum calls.bpf.c | cut -c 1-64)\"" -c calls.bpf.c -o calls.bpf.o

# Chosen together, so that what they rest on is compiled once: the features of a crate depend on who takes it.
PROGRAMS := hyperslab-tierfs hyperslab-links hyperslab-scratch hyperslab-filecalls
BUILT := $(addprefix --package ,$(PROGRAMS))
$(addprefix $(VENV)/bin/,$(PROGRAMS)) &: $(RUST) | $(VENV)/.cargo
	@$(CARGO) build --quiet --locked --manifest-path rust/Cargo.toml --target-dir rust/target $(BUILT)
	@install $(addprefix rust/target/debug/,$(PROGRAMS)) $(VENV)/bin

storage-picture: $(VENV)/.installed-test tierfs ## measure this machine's storage and emulated tiers, and draw docs/storage.svg
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.storage_picture

# What compares rates of this machine's processors and disk: others must not run meanwhile. Other users of the machine
# do, so that a comparison is made up to three times; a fault is there each time.
ALONE := tests/storage/probing/test_fio.py tests/storage/emulation/test_times_when_busy.py
ALONE += tests/system/verdicts/test_processors.py tests/system/verdicts/test_tasks.py

# What compares rates as well, but waits most of the time: for links, tiers and disks that are made slow, or as contrasts
# are large. Two of them may be measured at a time, beside nothing else.
PACED := tests/apps/netlab/test_planted.py
PACED += tests/system/verdicts/test_metadata.py tests/system/verdicts/test_storage.py
PACED += tests/storage/emulation/test_times.py tests/storage/emulation/test_network.py
PACED += tests/storage/probing/test_fio_of_tiers.py tests/storage/probing/test_measuring.py tests/network/links/test_links.py

# A process of pytest plays one file after the other. So many keep two processors busy, as most tests wait now and then.
BY_FILE := --dist loadfile --no-loadscope-reorder
AT_ONCE := 5

# What failed is kept there: a few tests that failed beside others are played once more alone (tests/again.py).
TRIED := $(VENV)/tried

# The checks run beside the tests, in time that these leave; what they have said is shown where one has failed. So the
# closing line of pytest ends the output of a sound run.
test: ## run every check and the tests
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.installed-test programs $(VENV)/spark-classes.jsa $(VENV)/.compiled-tests
	@status=0; said=$(VENV)/checks.txt; \
	nice -n 10 $(MAKE) --no-print-directory lint rust-tests > $$said 2>&1 & checks=$$!; \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n $(AT_ONCE) $(BY_FILE) -o cache_dir=$(TRIED) --cache-clear $(addprefix --ignore=,$(PACED) $(ALONE)) $(PYTEST) || status=$$?; \
	wait $$checks || { status=3; cat $$said; echo "A check failed, see above."; }; \
	if [ $$status = 1 ] && PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.again $(TRIED); then status=0; fi; \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 $(BY_FILE) --reruns 2 $(PACED) || status=1; \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest --reruns 2 $(ALONE) || status=1; \
	exit $$status

# `make test` leaves out repetitions (tests/repetitions.py), and draws a fifth of the examples (tests/examples.py).
test-all: ## run every check and every test, those too that repeat a point on another engine or format
	@HYPERSLAB_ALL_TESTS=1 HYPERSLAB_EXAMPLES=all $(MAKE) --no-print-directory test

# What the tests start, and Python's packages do not bring.
programs: system-packages $(VENV)/oldest-dask | $(VENV)/.cargo
	@$(MAKE) --no-print-directory tierfs BUILT="$(TESTED) --all-targets"

# The oldest Dask that pyproject.toml allows, beside the installed one, whose other libraries it shares: the recorder of
# messages rests on names that Dask does not promise.
$(VENV)/oldest-dask: pyproject.toml | $(VENV)/.installed-test
	@oldest=$$(sed -n 's/^dask = \["dask\[distributed\]>=\([0-9.]*\)".*/\1/p' pyproject.toml); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $@ "dask==$$oldest" "distributed==$$oldest"
	@touch $@

# The door to Python is tested from there: without it, pyo3 is not compiled for Rust's tests.
TESTED := --workspace --exclude hyperslab-python

rust-tests: ## run the tests of the Rust code alone
	@$(CARGO) test --quiet --locked --manifest-path rust/Cargo.toml $(TESTED)

# Classes that the tests' Spark loads, checked once: each of its Java processes then takes 4 s of a processor less.
$(VENV)/spark-classes.jsa: $(VENV)/.installed-test | system-packages
	@$(BIN)/python -m tests.spark_java

# Test files as pytest compiles them, which each of its processes would do anew.
$(VENV)/.compiled-tests: $(VENV)/.installed-test
	@$(BIN)/python -m pytest --collect-only --quiet >/dev/null && touch $@ || true

lint: $(VENV)/.installed-test ## run the checks alone: style, types, layers, Rust
	@status=0; \
	check() { echo "$$*"; "$$@" || status=1; }; \
	check $(BIN)/python -m ruff check .; \
	check $(BIN)/python -m ruff format --check .; \
	check $(BIN)/python -m mypy $(filter-out examples,$(CODE)); \
	check $(BIN)/lint-imports --no-logo; \
	check $(CARGO) fmt --all --check --manifest-path rust/Cargo.toml; \
	check $(CARGO) clippy --quiet --locked --all-targets --manifest-path rust/Cargo.toml -- -D warnings; \
	exit $$status

# Engines whose tests rest on the common code alone play parts of the suite in `make test` (tests/engines/chosen.py).
SUITES = sed -n 's/^class \(Test[A-Za-z]*\)(EngineTests).*/\1/p' tests/engines/*.py | paste -s -d' ' | sed 's/ / or /g'

engines: $(VENV)/.installed-test programs ## play the whole suite of engines on every engine, some minutes
	@$(MAKE) --no-print-directory $(VENV)/spark-classes.jsa
	@HYPERSLAB_ALL_TESTS=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 tests/engines -k "$$($(SUITES))" $(PYTEST)

# Random files of every format, read in every way and by the formats' own libraries.
NUMBER ?= 1000
SEED ?= 1

compare: $(VENV)/.installed-test ## random datasets against the formats' libraries, NUMBER=1000 SEED=1
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.comparison --number $(NUMBER) --seed $(SEED) $(COMPARE)

bench: $(VENV)/.installed-bench tierfs scratch filecalls ## measure against other readers, a hand-written loop, bare engines
	@for file in $(filter-out benchmarks/bench_spark% benchmarks/bench_staging.py,$(wildcard benchmarks/bench_*.py)); do PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.$$(basename $$file .py) $(BENCH) || exit 1; done

bench-staging: $(VENV)/.installed-bench tierfs ## measure runs by way of a fast tier, and reads in turns; makes a slow tier
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.bench_staging $(BENCH)

bench-spark: $(VENV)/.installed-bench ## measure loading into Spark against h5py, MPI and Spark's own ways; keep traces
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.spark_smoke
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.bench_spark --traces build/bench-spark $(BENCH)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.bench_spark_files

# Sanitizers and fuzzing are unstable features of the compiler, which this variable allows in a released one.
UNSTABLE := RUSTC_BOOTSTRAP=1
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
SECONDS ?= 60

sanitize: ## run the core's tests under the address sanitizer
	$(UNSTABLE) RUSTFLAGS=-Zsanitizer=address $(CARGO) test --quiet --locked --manifest-path rust/Cargo.toml \
		-p hyperslab-core --target $(HOST) --target-dir rust/target/sanitized

fuzz: ## hostile input for the core, SECONDS=60 per target
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --quiet --locked cargo-fuzz
	@cd rust/fuzz && for target in targets/*.rs; do \
		$(UNSTABLE) $(CARGO) fuzz run --fuzz-dir . $$(basename $$target .rs) -- -max_total_time=$(SECONDS) || exit 1; done

ROUNDS ?= 200
SEED ?= 1

campaign: $(VENV)/.installed-test system-packages ## random faults against the real command, ROUNDS=200 SEED=1
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.campaign --rounds $(ROUNDS) --seed $(SEED) $(CAMPAIGN)

# A regular expression: those in whose file or description it is found.
ONLY ?=

mutants: $(VENV)/.installed-test ## break lines one at a time; a test must notice each, ONLY=PATTERN
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.mutants --only "$(ONLY)"

docs: $(VENV)/.installed-docs ## build the pages into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# zig links with the symbols of glibc 2.17, whichever this machine has: manylinux2014.
wheel: $(VENV)/.installed-release ## build source distribution and wheel (manylinux2014, any Python from 3.11) into dist/, and try it
	@rm -rf dist
	@PATH="$(CURDIR)/$(BIN):$$PATH" maturin sdist --out dist
	@PATH="$(CURDIR)/$(BIN):$$PATH" maturin build --release --zig --compatibility manylinux2014 --out dist
	@$(BIN)/python -m tests.wheels dist/*.whl

changelog: $(VENV)/.installed-release ## show what the next release will announce
	@$(BIN)/python -m towncrier build --draft

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) rust/target rust/fuzz/target src/hyperslab/*.so build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Defines install_packages NAME...: as root, or by sudo without a password; otherwise it fails and says what to run.
# A policy that forbids it, Debian's own way, keeps the services of new packages from starting: the tests start their own.
define INSTALLER
install_packages() { \
	as_root=; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
	if ! command -v apt-get >/dev/null; then \
		echo "Install the equivalent of the Debian packages $$* with your system's package manager."; return 1; \
	fi; \
	if [ -n "$$as_root" ] && ! $$as_root true 2>/dev/null; then \
		echo "Debian packages are missing. Install them, then try again: sudo apt-get install $$*"; return 1; \
	fi; \
	echo "Installing the Debian packages $$* ($${as_root:-as root})."; \
	policy=/usr/sbin/policy-rc.d; \
	if ! [ -e $$policy ]; then \
		trap "$$as_root rm -f $$policy" EXIT; \
		printf '#!/bin/sh\nexit 101\n' | $$as_root tee $$policy >/dev/null; $$as_root chmod 755 $$policy; \
	fi; \
	$$as_root apt-get update -qq </dev/null; \
	apt_install() { $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$$@" </dev/null >/dev/null; }; \
	apt_install "$$@" || { [ $$# -gt 1 ] && failed= && for package in "$$@"; do apt_install "$$package" || failed=1; done && [ -z "$$failed" ]; }; \
}
endef

# All in one go, one by one only if that fails; daemons are where only root's PATH leads.
system-packages:
	@$(INSTALLER); \
	PATH="$$PATH:/usr/sbin:/sbin"; \
	absent() { for pair in $(SYSTEM_PACKAGES); do command -v "$${pair%%=*}" >/dev/null || echo "$$pair"; done; }; \
	missing=$$(absent | sed 's/.*=//' | sort -u); \
	[ -z "$$missing" ] || install_packages $$missing || true; \
	for pair in $$(absent); do echo "Without $${pair%%=*}, the tests that need it are skipped and listed at the end, or fail if CI is set."; done

$(VENV)/.created:
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer (Debian package python3), or name one with PYTHON=."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1), but hyperslab needs Python 3.11 or newer: name one, as in make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(INSTALLER); \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	|| install_packages "$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
	@echo "Creating $(VENV) with $$($(PYTHON) --version)."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The core is compiled on this machine; a wheel brings it compiled.
$(VENV)/.cargo: | $(VENV)/.created
	@command -v $(CARGO) >/dev/null || { echo "There is no cargo here: install Rust 1.88 or newer (https://rustup.rs) to build the native core from source."; exit 1; }
	@touch $@

# The file is the record of an installation; a newer pyproject.toml or source of the core makes it stale.
$(VENV)/.installed-base: EXTRA :=
$(VENV)/.installed-test: EXTRA := [test]
$(VENV)/.installed-bench: EXTRA := [bench]
$(VENV)/.installed-docs: EXTRA := [docs]
$(VENV)/.installed-release: EXTRA := [release]
$(VENV)/.installed-%: pyproject.toml $(RUST) | $(VENV)/.cargo
	@echo "Installing hyperslab$(EXTRA) into $(VENV)."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(EXTRA)'
	@touch $@
