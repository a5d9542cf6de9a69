# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.
# Each target sets itself up in .venv on a machine that has only Python 3.11+ and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SECONDS ?= 60
SECONDS_OF_SOAK ?= 600
MUTANTS ?= 300000
# A third of what tests take is waiting: for daemons to notice, for clocks, for Spark's other threads.
WORKERS ?= 4
PROGRAMS := src tests bench examples

.PHONY: help setup demo test test-long soak fuzz lint bench clean

help:
	@echo "make demo       a wide-area cluster on this machine, narrated (SECONDS=60)"
	@echo "make test       the whole test suite, some eight minutes on two cores"
	@echo "make test-long  thousands of simulator seeds, plans on real networks, the slow tests"
	@echo "make soak       a real cluster under floods, crashes and slow readers (SECONDS_OF_SOAK=600)"
	@echo "make fuzz       300,000 mutants of packets and frames at each door of a real cluster (MUTANTS=300000)"
	@echo "make lint       ruff, mypy --strict, import-linter"
	@echo "make bench      throughput and latency on this machine"
	@echo "make setup      only create .venv and install"
	@echo "make clean      remove .venv and every cache"

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "antiphon needs Python 3.11 or newer; try: make PYTHON=python3.11 setup"; exit 2; }
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

setup: $(STAMP)

demo: setup
	$(BIN)/antiphon demo --seconds $(SECONDS)

test: setup
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long"

test-long: setup
	$(BIN)/python -m pytest -n $(WORKERS) -m long --timeout 3600
	$(BIN)/antiphon simulate --seeds 0-1999 --scenario swarm
	$(BIN)/antiphon simulate --seeds 0-1999 --scenario sites
	$(BIN)/antiphon simulate --seeds 0-499 --scenario streams
	$(BIN)/antiphon simulate --seeds 0-1999

soak: setup
	$(BIN)/antiphon lab soak --seconds $(SECONDS_OF_SOAK)

fuzz: setup
	$(BIN)/antiphon lab fuzz --mutants $(MUTANTS)

lint: setup
	$(BIN)/ruff check $(PROGRAMS)
	$(BIN)/ruff format --check $(PROGRAMS)
	$(BIN)/mypy src/antiphon examples
	$(BIN)/lint-imports

bench: setup
	$(BIN)/antiphon bench throughput
	$(BIN)/antiphon bench latency
	$(BIN)/python bench/node.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
