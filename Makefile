# Two commands on a fresh machine:  make run  ·  make test.  Both create .venv and install what they need.
# make check is the part of make test that takes less than a minute.
# PYTHON=/path/to/python chooses the interpreter; otherwise the newest one from 3.11 on that really runs.

VENV := .venv
BIN  := $(VENV)/bin
# Compiled programs are kept, also those that compile in less than a second, which is most of them. They are made for one kind of
# processor, so each kind has a folder of its own.
CPU := $(shell { uname -sm; grep -E '^(model name|flags|Features)' /proc/cpuinfo; } 2>/dev/null | sort -u | cksum | cut -d' ' -f1)
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.cache/jax/$(CPU)
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= -1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Python compiles a module when it is first imported, and keeps the result. Compiling all modules of all packages would take as
# long as the rest of installing.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := -m pip install --quiet --no-compile --editable

.PHONY: run test check quick fuzz lint lint-js types layers browser docs bench clean

run: $(VENV)/.run
	@$(BIN)/wane reproduce --tabular --out out

test: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 lint types layers browser
	@$(BIN)/python -m pytest -n 2 --dist worksteal

# One folder or file of tests for each layer, and the type checker beside them: less than a minute on two cores.
QUICK := tests/theory tests/test_depletion.py tests/test_mdp.py tests/test_files.py tests/worlds/test_grid.py \
         tests/agents/test_rollout.py tests/runs/test_settings.py tests/report/test_report.py

check: lint layers
	@$(MAKE) --no-print-directory -j 2 types quick

quick: $(VENV)/.dev
	@$(BIN)/python -m pytest -m "not slow" $(QUICK)

# The site, tests that try everything (about half an hour; every page in a browser is among them), then random cases with fresh seeds for WANE_FUZZ_SECONDS (default 1800).
fuzz: $(VENV)/.dev browser docs
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m fuzz tests
	@PYTHONPATH=tests $(BIN)/python -m adversary

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# Checks the explorer's JavaScript. It needs Node and npm, which nothing else does, so `make test` leaves it out.
ESLINT := .cache/eslint
lint-js:
	@npm install --silent --no-audit --no-fund --prefix $(ESLINT) eslint @eslint/js globals prettier
	@cp eslint.config.mjs $(ESLINT)/
	@$(ESLINT)/node_modules/.bin/eslint --config $(ESLINT)/eslint.config.mjs src/wane/explorer/page
	@$(ESLINT)/node_modules/.bin/prettier --print-width 120 --check 'src/wane/explorer/page/*.js'

types: $(VENV)/.dev
	@$(BIN)/basedpyright

layers: $(VENV)/.dev
	@$(BIN)/lint-imports

browser: $(VENV)/.browser

docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -W --keep-going -q -b html -d docs/_build/doctrees docs site
	@echo "the site is site/index.html"

bench: $(VENV)/.bench
	@$(BIN)/python -m benchmarks.exact
	@$(BIN)/python -m benchmarks.local
	@$(BIN)/python -m benchmarks.worlds
	@$(BIN)/python -m benchmarks.tabular
	@$(BIN)/python -m benchmarks.forward_backward
	@$(BIN)/python -m benchmarks.features
	@$(BIN)/python -m benchmarks.a2c
	@$(BIN)/python -m benchmarks.explorer
	@$(BIN)/python -m benchmarks.sac
	@$(BIN)/python -m benchmarks.fit

ifdef PYTHON
ifneq ($(shell cat $(VENV)/.python 2>/dev/null),$(PYTHON))
.PHONY: $(VENV)/.python
endif
endif

$(VENV)/.python:
	@if [ -z "$(PYTHON)" ] && $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	  echo "using the $(VENV) that is there"; echo python > $@; exit 0; fi; \
	set -e; for p in $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python); do \
	  if "$$p" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "creating $(VENV) with $$p"; "$$p" -m venv --clear $(VENV); echo "$$p" > $@; exit 0; fi; done; \
	echo "No Python >= 3.11 with venv was found (tried: $(or $(PYTHON),python3.13 python3.12 python3.11 python3 python))." >&2; \
	echo "Install one (on Debian: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python" >&2; exit 1

$(VENV)/.run: $(VENV)/.python pyproject.toml
	@echo "installing wane[experiments] (about a minute)"
	@$(BIN)/python $(INSTALL) '.[experiments]'
	@touch $@

$(VENV)/.dev $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: $(VENV)/.python pyproject.toml
	@echo "installing wane[$*] (about a minute)"
	@$(BIN)/python $(INSTALL) '.[$*]'
	@touch $@ $(VENV)/.run

# The stamp holds the path. Where no browser can be had, the tests that need one say so.
ifeq ($(wildcard $(shell cat $(VENV)/.browser 2>/dev/null)),)
.PHONY: $(VENV)/.browser
endif

$(VENV)/.browser: $(VENV)/.dev
	@$(BIN)/python tests/report/chromium.py > $@.new && mv $@.new $@ || rm -f $@.new

clean:
	rm -rf $(VENV) .cache site docs/_build docs/reference .hypothesis .import_linter_cache .pytest_cache .ruff_cache
