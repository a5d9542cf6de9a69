# Everything a newcomer needs: `make demo` to see it, `make test` to trust it.
# Each target sets itself up in .venv on a machine that has only Python 3.11+ and make, with no more than it
# needs: the demo without extras (seconds, some megabytes), tests with all of them (minutes, a gigabyte).

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Which extras `make setup` installs: `EXTRAS=` for none, `EXTRAS=journal,pages` for these.
EXTRAS ?= dev
# A stamp says which extras are there; the one without a name, that Antiphon itself is.
STAMP := $(VENV)/.installed
EVERYTHING := $(STAMP)-dev
SECONDS ?= 60
SECONDS_OF_SOAK ?= 600
MUTANTS ?= 300000
# A third of what tests take is waiting: for daemons to notice, for clocks, for Spark's other threads.
WORKERS ?= 4
PYTHONS ?= python3.11 python3.12 python3.13
PYTHONS_TESTS ?= tests/unit tests/property tests/paper tests/client tests/simulation
PROGRAMS := src tests bench examples

.PHONY: help setup demo test pythons test-long soak fuzz lint bench clean

help:
	@echo "make demo       a wide-area cluster on this machine, narrated (SECONDS=60)"
	@echo "make test       the whole test suite, some eight minutes on two cores"
	@echo "make pythons    a part of the suite with each Python from 3.11 to 3.13 that is here (PYTHONS=)"
	@echo "make test-long  thousands of simulator seeds, plans on real networks, the slow tests"
	@echo "make soak       a real cluster under floods, crashes and slow readers (SECONDS_OF_SOAK=600)"
	@echo "make fuzz       300,000 mutants of packets and frames at each door of a real cluster (MUTANTS=300000)"
	@echo "make lint       ruff, mypy --strict, import-linter"
	@echo "make bench      throughput and latency on this machine"
	@echo "make setup      only create .venv and install (EXTRAS= for a light one, without Spark)"
	@echo "make clean      remove .venv and every cache"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "antiphon needs Python 3.11 or newer; try: make PYTHON=python3.11 setup"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(STAMP)-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@ $(STAMP)

setup: $(STAMP)$(addprefix -,$(EXTRAS))

demo: $(STAMP)
	$(BIN)/antiphon demo --seconds $(SECONDS)

test: $(EVERYTHING)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not long"

# Each in an environment of its own, and without what waits for the network or for Spark.
pythons:
	@for python in $(PYTHONS); do \
	  $$python -c "" 2> /dev/null || { echo "$$python is not here"; continue; }; \
	  there=$(VENV)-$$(basename $$python); \
	  $$python -m venv $$there && $$there/bin/python -m pip install --quiet --editable '.[dev]' \
	    && $$there/bin/python --version \
	    && $$there/bin/python -m pytest -n $(WORKERS) -m "not long" $(PYTHONS_TESTS) || exit 1; \
	done

test-long: $(EVERYTHING)
	$(BIN)/python -m pytest -n $(WORKERS) -m long --timeout 3600
	$(BIN)/antiphon simulate --seeds 0-1999 --scenario swarm
	$(BIN)/antiphon simulate --seeds 0-1999 --scenario sites
	$(BIN)/antiphon simulate --seeds 0-499 --scenario streams
	$(BIN)/antiphon simulate --seeds 0-1999

soak: $(EVERYTHING)
	$(BIN)/antiphon lab soak --seconds $(SECONDS_OF_SOAK)

fuzz: $(EVERYTHING)
	$(BIN)/antiphon lab fuzz --mutants $(MUTANTS)

lint: $(EVERYTHING)
	$(BIN)/ruff check $(PROGRAMS)
	$(BIN)/ruff format --check $(PROGRAMS)
	$(BIN)/mypy src/antiphon examples
	$(BIN)/lint-imports

bench: $(STAMP)
	$(BIN)/antiphon bench throughput
	$(BIN)/antiphon bench latency
	$(BIN)/python bench/node.py

clean:
	rm -rf $(VENV) $(VENV)-* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
