# Two commands matter: `make demo` runs the main job, `make test` passes the tests.
# Everything sets up what it needs by itself: it takes make, Python 3.11-3.13 and a network to the
# package registries once.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SPARK  := $(VENV)/.spark
# Compiled files are kept: else each of the many processes compiles its libraries again.
export PYTHONDONTWRITEBYTECODE =
# uv resolves the lock; its own version is pinned because the lock's format is its.
UV     := uv==0.13.8

# Random tests draw from this seed: the commit's, so that one commit always gives one result.
SEED   ?= $(shell printf '%d' 0x0$$(git rev-parse HEAD 2>/dev/null | cut -c1-8))
# A file stays in one process, which builds once the data that its tests share. Three processes on two
# cores: some tests wait for a server or a deadline.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
# Of a tier with few tests, each process imports only the files that name its marker.
FILES = grep --recursive --files-with-matches --extended-regexp --include='test_*.py'
RANDOM_EXAMPLES = --hypothesis-profile=random --hypothesis-seed=$(SEED)

.PHONY: help setup demo ui test check test-deep test-servers explore servers constraints bench simulate docs wheel image images format clean \
  check-types check-sql check-architecture

help: ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
	  { echo "gpu-ledger needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 …"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo "Python cannot make virtual environments here. On Debian: apt-get install python3-venv"; exit 2; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv sync --quiet --frozen --python $(BIN)/python
	@touch $@

$(SPARK): $(READY)
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv sync --quiet --frozen --inexact --extra spark --python $(BIN)/python
	@touch $@

setup: $(READY) ## Install everything into .venv.

demo: $(READY) ## From a simulated fleet to sealed invoices, in ./demo-home.
	@$(BIN)/gpu-ledger demo --home demo-home

ui: $(READY) ## Dagster UI of a simulated month with four missing hours to backfill.
	@$(BIN)/gpu-ledger up --demo --home open-month

test: $(READY) ## Units, properties, and scenarios against the truth: five minutes on two cores.
	@$(PYTEST) -m "not deep and not servers and not explore" --ignore=tests/architecture --ignore=tests/servers tests

check: $(READY) ## Ruff, mypy strict, sqlfluff, architecture.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync=target check-types check-sql check-architecture

check-types: $(READY)
	@$(BIN)/mypy

check-sql: $(READY)
	@$(BIN)/sqlfluff lint dbt/models dbt/data_tests
	@$(BIN)/sqlfluff lint --templater placeholder warehouse/reports/sql quality billing/sql

check-architecture: $(READY)
	@$(BIN)/python -m pytest tests/architecture

test-deep: $(READY) ## Commands of the pages as written, processes, simulated tenant-months.
	@echo "Replay this run with: make test-deep SEED=$(SEED)"
	@SEED=$(SEED) $(PYTEST) $(RANDOM_EXAMPLES) -m "deep and not servers" $$($(FILES) 'mark\.deep' tests)

servers: $(READY) ## Build the real servers that tests talk to, once per pinned version.
	@$(BIN)/python -m tests.servers.build

# More processes than of the other tiers: most of these tests wait for a server.
test-servers: servers $(SPARK) ## Tests against real servers; lists the missing ones.
	@$(PYTEST) -n 5 -m servers tests/servers

# N is the number of examples of each property and of simulated tenant-months.
explore: N ?= 1000
explore: $(READY) $(SPARK) ## Random tests with N cases of each kind (1000).
	@echo "Replay this run with: make explore N=$(N) SEED=$(SEED)"
	@N=$(N) SEED=$(SEED) $(PYTEST) $(RANDOM_EXAMPLES) -m "(explore or hypothesis) and not servers" \
	  $$($(FILES) 'mark\.explore|hypothesis' tests)

format: $(READY) ## Format the code with ruff.
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only .

wheel: $(READY) ## Build the wheel into dist/.
	@$(BIN)/uv build --quiet --wheel --out-dir dist

ENGINE    ?= podman
REGISTRY  ?= localhost
COMPONENT ?= collector
VERSION   := 0.1.0
IMAGES    := $(shell sed -n 's/^FROM component AS //p' deploy/Containerfile)
# An image has no time of its own: the same commit on the same base gives the same image.
BUILD_OPTIONS ?= --timestamp 0

image: $(READY) ## Build the image of COMPONENT= as REGISTRY=/gpu-ledger/COMPONENT:VERSION.
	@$(BIN)/python -m tests.release.image_context $(COMPONENT) build/image/$(COMPONENT)
	@$(ENGINE) build $(BUILD_OPTIONS) --file deploy/Containerfile --target $(COMPONENT) \
	  --tag $(REGISTRY)/gpu-ledger/$(COMPONENT):$(VERSION) build/image/$(COMPONENT)

images: ## Build the image of every component.
	@for one in $(IMAGES); do $(MAKE) image COMPONENT=$$one || exit 1; done

constraints: $(READY) ## Write constraints.txt, the versions for pip.
	@{ echo '# For `pip install gpu-ledger -c constraints.txt`: the versions of uv.lock. Written by `make constraints`.'; \
	  VIRTUAL_ENV=$(VENV) $(BIN)/uv export --quiet --frozen --no-default-groups --no-emit-project --no-hashes \
	  --no-annotate --no-header; } > constraints.txt

bench: $(READY) ## Measure every speed goal as a ratio of one run, and write the page of them.
	@$(BIN)/python -m bench

docs: $(READY) ## Build the pages into build/docs; a broken link fails.
	@$(BIN)/sphinx-build -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

simulate: N ?= 1000
simulate: $(READY) ## Compare N simulated tenant-months (1000) with the truth ledger; write the page.
	@GPU_LEDGER_WRITE_SIMULATION=1 N=$(N) $(BIN)/python -m pytest -s -m explore tests/scenarios/test_simulated_months.py
	@GPU_LEDGER_WRITE_SIMULATION=1 N=1000 $(BIN)/python -m pytest -m explore tests/unit/test_prune_decision.py

clean: ## Remove the files that make created; homes stay.
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache
