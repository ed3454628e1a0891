# Mainspring: what a person does here. `make help` lists it.
.SILENT:
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
NAME ?= drain
READY := .venv/.ready
# With the certificates that uv brings; where a proxy has its own, with those that this machine trusts.
SYNC := $(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock

.PHONY: help setup lock format check test demo dev docs bench

help:  ## this list
	awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(READY)  ## make the environment (.venv) from the hash-pinned lock

# uv itself comes from the lock, by hash; then uv installs all the rest, by hash, and this checkout in place.
$(READY): requirements.lock pyproject.toml
	echo "mainspring: preparing .venv" >&2
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^[^ ]/ {keep = /^uv==/} keep' requirements.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock 2>&1 | { grep -v '^WARNING: Location' || true; } >&2
	$(SYNC) 2>/dev/null || $(SYNC) --system-certs
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	touch $@

lock: $(READY)  ## pin the dependencies anew (names, versions and hashes)
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-header --no-annotate --all-extras --group work pyproject.toml -o requirements.lock

format: $(READY)  ## format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

check: $(READY)  ## format, lint, types, layers, migrations, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy libs services
	$(BIN)/lint-imports --no-cache
	$(BIN)/squawk libs/mainspring/store/migrations/*.sql
	$(BIN)/pytest -n 2 tests/unit tests/property tests/architecture

test: $(READY)  ## every test that needs no container engine
	$(BIN)/pytest -n 2 --dist loadgroup tests

demo: $(READY)  ## the main job, end to end, while services are killed (at most 90 s)
	$(BIN)/python docs/examples/demo.py

dev: $(READY)  ## all services on this machine
	$(BIN)/mainspring dev docs.examples.hello

docs: $(READY)  ## write the pages that are generated from the code
	$(BIN)/python -c "from mainspring.domain.states import as_markdown; print(as_markdown(), end='')" > docs/state-machine.md

bench: $(READY)  ## make bench NAME=drain|latency
	$(BIN)/python tests/benchmarks/run.py $(NAME)
