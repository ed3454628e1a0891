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

# The tests that need no server. `make check test` runs them once.
QUICK := tests/unit tests/property tests/architecture tests/model

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate
# Jaeger is asked for, and done without where its image can't be had.
JAEGER = $(shell docker compose --profile traces config --images 2>/dev/null | grep jaeger)
TRACES := COMPOSE_PROFILES=traces OTEL_EXPORTER_OTLP_ENDPOINT=http://jaeger:4317

.PHONY: help setup lock format check test demo dev docs bench up down test-compose chaos mutants

help:  ## this list
	awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(READY)  ## make the environment (.venv) from the hash-pinned lock

# uv itself comes from the lock, by hash; then uv installs all the rest, by hash, and this checkout in place. It is
# compiled as well: where PYTHONDONTWRITEBYTECODE is set, every process would compile it anew.
$(READY): requirements.lock pyproject.toml
	echo "mainspring: preparing .venv" >&2
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^[^ ]/ {keep = /^uv==/} keep' requirements.lock > .venv/uv.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r .venv/uv.lock 2>&1 | { grep -v '^WARNING: Location' || true; } >&2
	$(SYNC) 2>/dev/null || $(SYNC) --system-certs
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q libs services tests
	touch $@

lock: $(READY)  ## pin the dependencies anew (names, versions and hashes)
	$(COMPILE) --upgrade --all-extras --group work pyproject.toml -o requirements.lock
	$(COMPILE) -c requirements.lock pyproject.toml -o deploy/worker.lock
	$(COMPILE) -c requirements.lock --extra server pyproject.toml -o deploy/server.lock
	echo hatchling | $(COMPILE) -c requirements.lock - -o deploy/build.lock

format: $(READY)  ## format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .

check: $(READY)  ## format, lint, types, layers, migrations, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy libs services
	$(BIN)/lint-imports --no-cache
	$(BIN)/squawk libs/mainspring/store/migrations/*.sql
	$(BIN)/pytest -n 2 $(QUICK)

test: $(READY)  ## every test that needs no container engine
	$(BIN)/pytest -n 2 --dist loadgroup tests $(if $(filter check,$(MAKECMDGOALS)),$(QUICK:%=--ignore=%))

demo: $(READY)  ## the main job, end to end, while services are killed (at most 90 s)
	$(BIN)/python docs/examples/demo.py

dev: $(READY)  ## all services on this machine
	$(BIN)/mainspring dev docs.examples.hello

up:  ## everything in containers: the API at http://127.0.0.1:8080, traces at http://127.0.0.1:16686
	if docker image inspect $(JAEGER) > /dev/null 2>&1 || timeout 120 docker pull --quiet $(JAEGER) > /dev/null 2>&1; then \
	    env $(TRACES) docker compose up --build --wait; \
	else \
	    echo "mainspring: the image $(JAEGER) can't be had: starting without traces" >&2; docker compose up --build --wait; \
	fi

down:  ## stop the containers; their data stays (docker compose down --volumes removes it)
	docker compose --profile traces down

test-compose: $(READY)  ## the compose file from outside: containers are killed, workers scaled, all is taken down
	$(BIN)/pytest tests/e2e

chaos: $(READY)  ## make chaos [MIX=cluster] JOBS=1000 FAULTS=30|DURATION=600 SEED=7 [ONLY=kill,stop] [CHANCE=0.002] [CAMPAIGN=FILE RUNS=10]
	$(BIN)/python -m tests.chaos.run $(if $(MIX),--mix $(MIX)) $(if $(JOBS),--jobs $(JOBS)) $(if $(FAULTS),--faults $(FAULTS)) \
	    $(if $(DURATION),--duration $(DURATION)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) \
	    $(if $(CHANCE),--chance $(CHANCE)) $(if $(OLD),--old $(OLD)) $(if $(CAMPAIGN),--campaign $(CAMPAIGN)) $(if $(RUNS),--runs $(RUNS))

mutants: $(READY)  ## take each mechanism out of a copy, and see a test fail (some minutes)
	$(BIN)/python -m tests.mutants.run

docs: $(READY)  ## write the pages that are generated from the code
	$(BIN)/python docs/generate.py

bench: $(READY)  ## make bench NAME=drain|latency|recovery|herd|flow
	$(BIN)/python tests/benchmarks/run.py $(NAME)
