# `make help` lists what there is.
SHELL := /bin/bash
BIN := $(CURDIR)/.venv/bin
RUFF := $(BIN)/ruff
RUFF_OPTIONS := --config backend/pyproject.toml
PYTHON_FILES := backend scripts examples
# Three processes on two cores: tests wait for clocks and disks as much as for the processor.
IN_PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

KILLS ?= 2000
JOURNAL_TESTS := audit_lines cell_store chat_store coverage_store entry_store forgetting_store history_matching_store index_ledger job_store \
	journal_builder preset_store thread_forgetting thread_store transcript_store

.DEFAULT_GOAL := help
.PHONY: help serve test test-all test-cluster integration stress long lint format bench clients wheel openapi screenshots installed installed-dev

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: installed ## install what is needed and start the server; it prints its address
	@$(BIN)/recollect setup >&2 || echo "serve: starting without the small chat model, which could not be fetched; 'recollect setup' tries again" >&2
	@exec $(BIN)/recollect serve

test: installed-dev ## the quick suite: ten minutes on two cores
	cd backend && $(BIN)/pytest $(IN_PARALLEL) --quick tests

test-all: installed-dev ## every test but the long ones: about 21 minutes
	cd backend && $(BIN)/pytest $(IN_PARALLEL) tests

test-cluster: installed-dev ## journals in a PostgreSQL that is killed (Debian's package postgresql), files in S3, the stress suite on both
	cd backend && CI=true $(BIN)/pytest tests/integration/journal/test_postgres*.py tests/integration/journal/test_migrate.py tests/integration/journal/test_files_in_s3.py tests/integration/journal/test_lost_homes.py tests/integration/journal/test_members.py tests/integration/recall/test_index_in_s3.py tests/contract/test_ledger.py tests/stress/test_kills_on_postgres.py tests/stress/test_members_killed.py
	cd backend && CI=true $(BIN)/pytest --deployment=cluster $(JOURNAL_TESTS:%=tests/contract/test_%.py)
	cd backend && CI=true $(BIN)/pytest --deployment=cluster tests/unit/vault tests/contract/test_object_vault.py tests/contract/test_folder_copy.py
	cd backend && CI=true $(BIN)/pytest $(IN_PARALLEL) --deployment=cluster tests/contract/test_index_store.py tests/unit/recall/test_index_damage.py tests/unit/recall/test_reindex.py tests/integration/recall/test_members_index.py
	cd backend && CI=true $(BIN)/pytest $(IN_PARALLEL) --deployment=cluster --quick tests/stress

integration: installed-dev ## the tests that run against real files, databases and processes
	cd backend && $(BIN)/pytest tests/integration tests/contract

stress: installed-dev ## the whole system under load, faults and kills for twenty minutes; a table, and a plot
	cd backend && $(BIN)/pytest tests/stress --stress=long -m "not long" --artefacts $(CURDIR)/stress-artefacts

long: installed-dev ## the other long runs: two thousand kills (KILLS=2000), a hundred thousand messages
	cd backend && $(BIN)/pytest -n 3 --dist worksteal --stress=long -m long --kills $(KILLS)

lint: installed-dev ## style, types, layers, times, OpenAPI drift, commit titles
	$(RUFF) check $(RUFF_OPTIONS) $(PYTHON_FILES)
	$(RUFF) format --check $(RUFF_OPTIONS) $(PYTHON_FILES)
	cd backend && $(BIN)/mypy
	cd backend && $(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/check_time_zones.py
	$(BIN)/python scripts/openapi.py --check
	scripts/check_commits

format: installed-dev ## rewrite the Python files in the house style
	$(RUFF) check --fix $(RUFF_OPTIONS) $(PYTHON_FILES)
	$(RUFF) format $(RUFF_OPTIONS) $(PYTHON_FILES)

bench: installed-dev ## measure the server beside its baseline
	$(BIN)/python scripts/bench

wheel: installed ## build the package into dist/, for pip, pipx and uvx
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist ./backend

openapi: installed-dev ## rewrite docs/openapi.json from the code
	$(BIN)/python scripts/openapi.py

screenshots: installed-dev ## take the pictures of the documentation again, of a demo home
	PYTHONPATH=backend $(BIN)/python scripts/screenshots.py

clients: installed-dev ## try the server with real clients from PyPI and npm, each in its own environment
	PYTHONPATH=backend $(BIN)/python scripts/try_clients.py

installed:
	@scripts/bootstrap

installed-dev:
	@scripts/bootstrap dev
