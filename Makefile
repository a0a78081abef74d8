# Everything from nothing: a machine with python3 and pip is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --require-hashes --no-build-isolation
LOCK   := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
          --no-emit-index-url $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help demo test test-spark test-browser test-packaging check shape lock bench bench-worker bench-control bench-schedules bench-by-turns bench-composition bench-pipeline clean docs sbom bench-observing bench-peers test-bounds bench-dashboard

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/base ## run the showcase on the embedded SQLite store
	$(BIN)/python examples/demo.py

test: $(VENV)/dev ## run the tests, on real servers (ARGS="-k name" to choose)
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not spark and not packaging and not browser" $(ARGS)

test-spark: $(VENV)/dev ## run those on Spark (ARGS='-m "not slow"' without clusters and servers)
	$(BIN)/python -m pytest tests/pipeline $(ARGS)

test-browser: $(VENV)/dev ## run those of the dashboard in a real Chromium (Debian's package chromium)
	$(BIN)/python -m pytest tests/browser -m browser $(ARGS)

test-packaging: $(VENV)/dev ## install the built wheel with each extra into a clean environment, and run the quickstart
	$(BIN)/python -m pytest tests/packaging -m "packaging and not bounds" $(ARGS)

test-bounds: $(VENV)/dev ## run some tests with the lowest and with the newest versions of all dependencies
	$(BIN)/python -m pytest tests/packaging -m bounds $(ARGS)

docs: $(VENV)/dev ## build the documentation site into site/, offline; a warning fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

check: $(VENV)/dev ## format, lint, types, import rule
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

sbom: $(VENV)/dev ## write a bill of materials (CycloneDX) of what Stem installs into dist/
	$(BIN)/python tools/sbom.py $(ARGS)

shape: ## print sizes, branches, import cycles and repeated names
	$(PYTHON) tools/shape.py $(ARGS)

bench: $(VENV)/dev ## measure the stores against their bars (takes minutes)
	$(BIN)/python benchmarks/stores.py $(ARGS)

bench-worker: $(VENV)/dev ## measure a real worker on each store against its bars (takes minutes)
	$(BIN)/python benchmarks/worker.py $(ARGS)

bench-control: $(VENV)/dev ## measure what steering three workers costs on each store
	$(BIN)/python benchmarks/control.py $(ARGS)

bench-schedules: $(VENV)/dev ## measure a scheduler with 10,000 entries on each store
	$(BIN)/python benchmarks/schedules.py $(ARGS)

bench-by-turns: $(VENV)/dev ## compare with another checkout by turns (ARGS="/tmp/before --what latency")
	$(BIN)/python benchmarks/by_turns.py $(ARGS)

bench-composition: $(VENV)/dev ## measure what chords and chains cost on each store
	$(BIN)/python benchmarks/composition.py $(ARGS)

bench-observing: $(VENV)/dev ## measure what metrics, counters, task logs and a follower cost a worker
	$(BIN)/python benchmarks/observing.py $(ARGS)

bench-peers: $(VENV)/dev .venv-peers/done ## compare with other task queues, by turns (takes minutes)
	$(BIN)/python benchmarks/peers.py $(ARGS)

.venv-peers/done: benchmarks/peers.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip --disable-pip-version-check --quiet install -r benchmarks/peers.txt
	touch $@

bench-dashboard: $(VENV)/dev ## measure the dashboard's pages with 1,000,000 finished tasks
	$(BIN)/python benchmarks/dashboard.py $(ARGS)

bench-pipeline: $(VENV)/dev ## measure the pipeline on Spark against its bars (takes minutes)
	$(BIN)/python benchmarks/pipeline.py $(ARGS)

clean: ## remove what make made
	rm -rf $(VENV) .venv-peers site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

lock: $(VENV)/dev ## pin what is installed, with hashes, after a change of pyproject.toml (ARGS=--upgrade for newer versions)
	$(PIP) install uv==0.13.8
	$(LOCK) --group build -o requirements/build.txt
	$(LOCK) pyproject.toml --extra spark -o requirements/demo.txt
	$(LOCK) pyproject.toml --all-extras --group dev --constraint requirements/build.txt --constraint requirements/demo.txt -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --resolution lowest-direct --no-header --no-annotate \
	  --no-emit-index-url --all-extras pyproject.toml -o tests/packaging/lowest.txt

# Each file is installed whole and checked against its hashes; what comes as source is built with the tools pinned first.
$(VENV)/base: pyproject.toml requirements/build.txt requirements/demo.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -r requirements/build.txt
	$(INSTALL) -r requirements/demo.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/dev: $(VENV)/base requirements/dev.txt
	$(INSTALL) -r requirements/dev.txt
	touch $@
