# Two commands: `make demo` shows what apportion does, `make test` proves it. Both set up their own virtual environment.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ENGINES := chromium gcc g++ libmemcached11 libhashkit2 nginx-light redis-server postgresql pgbouncer etcd-server etcd-client faketime openjdk-17-jdk-headless maven
SOAK_MINUTES ?= 5
SOAK_SEED ?=
MUTANTS_SEED ?=
NATIVE := native/Cargo.toml native/Cargo.lock $(wildcard native/src/*.rs native/src/*/*.rs)
PURPOSE_demo := demo
PURPOSE_peers := bench
PURPOSE_types := complete
REFERENCE ?=
TWIN = APPORTION_NATIVE=$(if $(wildcard src/apportion/_native*.so),1,0)
KEYS ?=
TOPOLOGY ?=

# Owners that are paused or killed on each store; a default of each target would not do, for the nearer one wins.
export APPORTION_GROUP_RUNS ?= $(if $(filter live,$(MAKECMDGOALS)),500,36)
export CARGO_TARGET_DIR := $(CURDIR)/.venv/cargo
# Stores sync each commit, and no fast test asks whether its files outlive the machine: where memory has room, they lie there.
MEMORY := $(shell df --output=avail /dev/shm 2>/dev/null | awk 'NR > 1 && $$1 >= 4194304 { print "TMPDIR=/dev/shm" }')
# Of each property `make check` tries the first examples, and `make test` all of them.
EXAMPLES := $(if $(filter test,$(MAKECMDGOALS)),ci,few)
# Bytecode is kept: the tests start hundreds of processes, and an import without it takes three times as long.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo tour test check rust types form complete live bench soak mutants dist pythons lock clean

help: ## List these commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 8

demo: .venv/demo.stamp ## Processes share real work; some join, die or sleep; a verifier reads what they did
	@$(TWIN) $(BIN)/apportion demo --exit

tour: .venv/demo.stamp ## Route real keys and plan a change (KEYS=file, TOPOLOGY=file.toml)
	@$(TWIN) $(BIN)/apportion tour $(if $(KEYS),--keys '$(KEYS)') $(if $(TOPOLOGY),--topology '$(TOPOLOGY)')

test: .venv/engines.stamp .venv/dev.stamp .venv/types.packages check live ## Everything: checks and fast tests, known types, then the tests that kill processes

check: .venv/dev.stamp ## Format, types, import rules, tidiness, doctests and fast tests; some minutes on two cores
	@$(MAKE) --no-print-directory --jobs 2 --output-sync rust types form $(if $(filter test,$(MAKECMDGOALS)),complete)
	$(MEMORY) HYPOTHESIS_PROFILE=$(EXAMPLES) $(BIN)/pytest -q -n 4 --dist worksteal -m 'not live and not slow and not soak'

rust:
	@native/lint

types:
	$(BIN)/mypy src/apportion tests/typing/api.py bench models generate distributions

form:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m generate --check
	$(BIN)/lint-imports --no-cache --verbose | tail -n 12

complete: .venv/dev.stamp .venv/types.packages ## Ask pyright whether every public type is known; prints the score, and fails below 100 %
	@PATH="$(CURDIR)/$(BIN):$$PATH" basedpyright --verifytypes apportion --ignoreexternal >.venv/complete.txt; code=$$?; \
	  grep -E ' error: |^Type completeness' .venv/complete.txt; exit $$code

live: .venv/dev.stamp .venv/engines.stamp ## Tests that kill processes or ask real programs, and those of the reference alone
	$(BIN)/pytest -q -n 3 --dist worksteal --durations=80 --durations-min=5 -m '(live or slow) and not soak' tests
	APPORTION_NATIVE=0 HYPOTHESIS_PROFILE=few $(BIN)/pytest -q -n auto -m 'not live and not slow and not soak' tests/placement tests/contracts tests/balance --ignore=tests/balance/kafka --ignore=tests/balance/helix

bench: .venv/dev.stamp .venv/engines.stamp .venv/peers.packages .venv/newer.stamp ## Print every figure, against named peers (REFERENCE=1: of the reference in Python)
	$(BIN)/python -m bench $(if $(REFERENCE),--reference)

soak: .venv/dev.stamp .venv/engines.stamp ## Random topologies and groups for SOAK_MINUTES=5 each, going on where the last soak stopped (SOAK_SEED= to repeat); lost writes; hand-overs
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))
	$(BIN)/python -m tests.soak --of groups --minutes $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))
	$(BIN)/python -m tests.durability --rounds $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))
	$(BIN)/python -m models --full
	$(BIN)/pytest -q -n auto -m soak tests

mutants: .venv/dev.stamp ## Random single mutants of the package that the quick tests should kill; an hour or two, goes on where it was interrupted (MUTANTS_SEED= to repeat)
	$(BIN)/python -m tests.mutants $(if $(MUTANTS_SEED),--seed $(MUTANTS_SEED))

dist: .venv/demo.packages ## Build the sdist and both wheels of the last commit into dist/; equal commits give equal files
	@$(BIN)/python -m distributions

pythons: dist ## Try the built wheels, each extra and the fast tests, on every interpreter from 3.11 on; half an hour
	@$(BIN)/python -m distributions.pythons

lock: .venv/dev.stamp ## Resolve the pinned versions again
	$(PIP) install uv
	for lock in 'demo --extra demo' 'dev --extra all --group dev' 'peers --group peers --constraint requirements/dev.lock' \
	    'fastring --group fastring --constraint requirements/dev.lock' 'types --group types'; do \
	  $(BIN)/uv pip compile pyproject.toml --quiet --universal --generate-hashes --upgrade --no-annotate --no-emit-index-url \
	    --no-emit-find-links --python-version 3.11 --group build $${lock#* } --custom-compile-command 'make lock' \
	    -o requirements/$${lock%% *}.lock; done

clean: ## Remove the virtual environment and what tools left behind
	rm -rf .venv build dist native/target* src/apportion/_native*.so src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .soak .mutants

# As root the programs come from Debian's packages; otherwise tests of an absent one are skipped by name.
.venv/engines.stamp: Makefile
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! dpkg -s $(ENGINES) >/dev/null 2>&1; then \
	  echo "Installing $(ENGINES) ..."; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(ENGINES) >/dev/null; \
	fi
	@mkdir -p .venv && touch $@

.venv/%.packages: requirements/%.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and sys.argv[1])' \
	  "apportion needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V). Name another: make PYTHON=python3.12"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing what 'make $(or $(PURPOSE_$*),test)' needs into .venv ..."
	@$(PIP) install --require-hashes -r requirements/$*.lock || \
	  { echo "pip could not install requirements/$*.lock. Is its package index in reach? Then: make again" >&2; exit 1; }
	@touch $@

# The demonstration waits for no compiler: without a twin the reference answers.
.venv/demo.stamp: .venv/demo.packages native/install pyproject.toml
	@native/install $(BIN)/python --reference
	@touch $@

# The build of the native twin is optional, and fails in silence: so it is asked first whether it can succeed.
.venv/%.stamp: .venv/%.packages native/install pyproject.toml $(NATIVE)
	@native/install $(BIN)/python
	@touch $@

# fastring needs a newer Python than we do, and is measured where there is one.
.venv/newer.stamp: requirements/fastring.lock bench/newer-python pyproject.toml $(NATIVE) $(shell find src -name '*.py') | .venv/dev.stamp
	@bench/newer-python $(BIN)/python
	@touch $@

.SECONDARY: .venv/demo.packages .venv/dev.packages
