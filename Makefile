# The commands of this project; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := $(wildcard src tests benchmarks examples)

# What the tests need from the system, as command=package of Debian.
SYSTEM_PACKAGES := unshare=util-linux mount=mount

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint bench docs wheel changelog clean system-packages

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-base ## run the main job on a real brain volume
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

# pytest comes last, whatever the checks say, so that its closing line ends the output of a sound run.
test: $(VENV)/.installed-test system-packages ## run every check and every test
	@status=0; $(MAKE) --no-print-directory lint || status=1; \
	if [ $$status = 1 ]; then echo "A check failed, see above; the tests run all the same."; fi; \
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 $(PYTEST) || status=1; \
	exit $$status

lint: $(VENV)/.installed-test ## run the checks alone: style, types, layers
	@status=0; \
	check() { echo "$$*"; "$$@" || status=1; }; \
	check $(BIN)/python -m ruff check .; \
	check $(BIN)/python -m ruff format --check .; \
	check $(BIN)/python -m mypy $(filter-out examples,$(CODE)); \
	check $(BIN)/lint-imports --no-logo; \
	exit $$status

bench: $(VENV)/.installed-test ## measure against a hand-written loop
	@for file in benchmarks/bench_*.py; do PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.$$(basename $$file .py) $(BENCH) || exit 1; done

docs: $(VENV)/.installed-docs ## build the pages into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: $(VENV)/.installed-release ## build the source distribution and the wheel into dist/
	@rm -rf dist
	@$(BIN)/python -m build

changelog: $(VENV)/.installed-release ## show what the next release will announce
	@$(BIN)/python -m towncrier build --draft

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Defines install_package NAME: as root, or by sudo without a password; otherwise it fails and says what to run.
define INSTALLER
install_package() { \
	as_root=; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
	if ! command -v apt-get >/dev/null; then \
		echo "Install the equivalent of the Debian package $$1 with your system's package manager."; return 1; \
	fi; \
	if [ -n "$$as_root" ] && ! $$as_root true 2>/dev/null; then \
		echo "The Debian package $$1 is missing. Install it, then try again: sudo apt-get install $$1"; return 1; \
	fi; \
	echo "Installing the Debian package $$1 ($${as_root:-as root})."; \
	$$as_root apt-get update -qq && $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y "$$1" >/dev/null; \
}
endef

system-packages:
	@$(INSTALLER); \
	for pair in $(SYSTEM_PACKAGES); do \
		command -v "$${pair%%=*}" >/dev/null || install_package "$${pair#*=}" \
		|| echo "Without $${pair%%=*}, the tests that need it are skipped and listed at the end."; \
	done

$(VENV)/.created:
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON) here: install Python 3.11 or newer (Debian package python3), or name one with PYTHON=."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>&1), but hyperslab needs Python 3.11 or newer: name one, as in make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(INSTALLER); \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	|| install_package "$$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
	@echo "Creating $(VENV) with $$($(PYTHON) --version)."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The file is the record of an installation; a newer pyproject.toml makes it stale.
$(VENV)/.installed-base: EXTRA :=
$(VENV)/.installed-test: EXTRA := [test]
$(VENV)/.installed-docs: EXTRA := [docs]
$(VENV)/.installed-release: EXTRA := [release]
$(VENV)/.installed-%: pyproject.toml | $(VENV)/.created
	@echo "Installing hyperslab$(EXTRA) into $(VENV)."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.$(EXTRA)'
	@touch $@
