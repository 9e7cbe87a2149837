# Every target does its own set-up: Python 3.11 or newer, make and git are enough. CONTRIBUTING.md says what each is for.

ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif

# The first Python on the PATH that is new enough; `make PYTHON=/path/to/python install` overrides it.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PRODUCT := .venv/product
STAMP := .venv/installed
REPO ?=
ARGS ?=

# pyright looks for a newer release of itself unless it is told not to.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Hundreds of processes import the same modules: compiled once, whatever is usual here.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help install check check-format check-lint check-types check-imports compiled format test test-pythons soak bench tour demo model constraints clean

help:
	@echo "make install      build .venv with cortex and the tools of development in it"
	@echo "make demo         each kind of knowledge once on a small project (REPO=path for yours, too)"
	@echo "make test         check, then the tests (ARGS=... goes to pytest)"
	@echo "make test-pythons the tests of secrets, patterns and readers with every other Python 3.11+ here"
	@echo "make check        format, lint, types, imports; change nothing"
	@echo "make format       format and sort imports in place"
	@echo "make soak         the long fault, fuzz, load and conformance runs"
	@echo "make bench        the benchmarks (ARGS=... goes to bench/run.py)"
	@echo "make tour         one walk through every tool with a foreign client"
	@echo "make model        train the static model anew (CACHE=path of archives, FOLDERS=benchmark corpora)"
	@echo "make constraints  renew constraints.txt from what pyproject.toml allows"
	@echo "make clean        remove .venv, caches and build results"

install: $(STAMP)

# The build backend comes first and pinned, so that building needs no environment of its own.
$(PRODUCT): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Cortex needs Python 3.11 or newer; found: $$(python3 --version 2>&1). \
	Install one, or name it: make PYTHON=/path/to/python3.11 install" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(PIP) install --constraint constraints.txt hatchling editables
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

$(STAMP): $(PRODUCT)
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

check: check-format check-lint check-types check-imports

check-format: install
	$(BIN)/ruff format --check .

check-lint: install
	$(BIN)/ruff check .

check-types: install
	$(BIN)/pyright

check-imports: install
	$(BIN)/lint-imports --no-logo

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --select I --fix .

# What the processes of pytest would each do for themselves. What is wrong with a module they say, so it isn't said here.
compiled: install
	@$(BIN)/python -m pytest --collect-only -n 0 >/dev/null 2>&1 || true

# The check of types takes one core; beside it the tests are compiled. Then three at a time, on two cores too: much of the tests'
# time is waiting, for processes, for a deadline. Which files begin is said in tests/conftest.py.
test: install
	@$(MAKE) --no-print-directory -j 2 check compiled
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-pythons: install
	$(BIN)/python scripts/test_pythons.py

soak: install
	CORTEX_SOAK=1 $(BIN)/python -m pytest -m soak --timeout=7200 -rs $(ARGS)

bench: install
	$(BIN)/python -m bench.run $(ARGS)

tour: install
	$(BIN)/python -m bench.tour $(ARGS)

demo: $(PRODUCT)
	@$(BIN)/python scripts/demo.py "$(REPO)"

# Training has an environment of its own: nothing in the product needs torch.
TRAIN := build/train
CACHE ?= $(TRAIN)/cache
FOLDERS ?=

model:
	@test -n "$(PYTHON)" || { echo "Cortex needs Python 3.11 or newer" >&2; exit 1; }
	@test -d $(TRAIN)/venv || "$(PYTHON)" -m venv $(TRAIN)/venv
	$(subst .venv,$(TRAIN)/venv,$(BIN))/python -m pip --disable-pip-version-check --quiet install -r train/requirements.txt
	PYTHONPATH=src OMP_NUM_THREADS=1 $(subst .venv,$(TRAIN)/venv,$(BIN))/python -m train.model $(CACHE) src/cortex/engine/embedders/static.npz $(FOLDERS)

constraints:
	@test -n "$(PYTHON)" || { echo "Cortex needs Python 3.11 or newer" >&2; exit 1; }
	"$(PYTHON)" scripts/constraints.py

clean:
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist bench/out
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
