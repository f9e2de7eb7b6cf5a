# One door for people and for .ci/run. `make` alone sets up; `make help` lists the rest.
# GNU make 3.81 or later.

.DEFAULT_GOAL := setup
.DELETE_ON_ERROR:
.SUFFIXES:

BIN := .venv/bin
SYNCED := .venv/.synced
TEST_WORKERS ?= 2

# The project's environment, whatever is active in the shell.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH
# Our own modules are compiled once too; this setting would compile them again in every process.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo up test browser bench check format lint types imports definitions fix lock upgrade clean help

setup: $(SYNCED) ## make .venv: pinned packages and the project (with or without uv)

demo: $(SYNCED) ## the stories of both ledgers, run by Dagster, as a transcript
	@$(BIN)/amends demo

up: $(SYNCED) ## Dagster's pages over your ledgers, until Ctrl-C (UP_ARGS="--port 3001")
	@$(BIN)/amends up --with-parent $(UP_ARGS)

test: $(SYNCED) ## the whole suite, PostgreSQL included (PYTEST_ARGS="-k refold" for a part)
	$(BIN)/pytest -n $(TEST_WORKERS) --dist worksteal -m "not browser" $(PYTEST_ARGS) $(if $(MEASURED),--cov)

browser: $(SYNCED) ## the Dagster UI in a real Chromium; screenshots go to test-output/browser
	$(BIN)/pytest -m browser amends_pipeline_tests/browser

bench: $(SYNCED) ## measure against peers; table and bench.json (ROWS=1,6 for some, BENCH_ARGS=--list)
	@$(if $(findstring --no-peers,$(BENCH_ARGS)),,.ci/environment.sh peers || echo "going on without")
	@$(BIN)/python -m amends_pipeline_tests.bench $(if $(ROWS),--rows $(ROWS)) $(BENCH_ARGS)

check: $(SYNCED) ## all that must hold before a change goes in
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory definitions
	@$(MAKE) --no-print-directory test MEASURED=yes

format: $(SYNCED) ## is everything formatted?
	$(BIN)/ruff format --check

lint: $(SYNCED) ## every rule of ruff but those with a reason
	$(BIN)/ruff check

types: $(SYNCED) ## mypy, strict, over the package
	$(BIN)/mypy

imports: $(SYNCED) ## the arrows between the rooms
	$(BIN)/lint-imports

definitions: $(SYNCED) ## does Dagster load what definitions.py names?
	env -u DAGSTER_HOME $(BIN)/dagster definitions validate -w workspace.yaml

fix: $(SYNCED) ## format, and repair what ruff can repair
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# The exports name no address. Versions already in them stay while pyproject.toml allows them.
COMPILE = .ci/environment.sh uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-strip-extras --custom-compile-command "make lock" $(UPGRADE)

lock: ## write requirements*.txt from pyproject.toml, keeping versions that still fit
	$(COMPILE) --group dev pyproject.toml --output-file requirements-dev.txt
	$(COMPILE) --constraints requirements-dev.txt pyproject.toml --output-file requirements.txt
	$(COMPILE) --group pyproject.toml:bootstrap --output-file requirements-uv.txt
	$(COMPILE) --group pyproject.toml:peers --output-file requirements-peers.txt

upgrade: ## as lock, with the newest versions that pyproject.toml allows
	@$(MAKE) --no-print-directory lock UPGRADE=--upgrade

clean: ## remove the environment and what the tools left (never .amends, your data)
	rm -rf .venv .venv-peers .uv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
		.coverage mutants dist
	find amends_pipeline amends_pipeline_tests -name __pycache__ -prune -exec rm -rf {} +

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

# Not due again until the pins change, the folder is moved, or its interpreter is gone.
STALE := $(shell [ "$$(cat $(SYNCED) 2>/dev/null)" = "$$(pwd -P)" ] && [ -x $(BIN)/python ] || echo stale)

$(SYNCED): pyproject.toml requirements-dev.txt $(STALE)
	@.ci/environment.sh sync

.PHONY: stale
stale:
