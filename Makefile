# make demo: the main job on the built-in corpus, and at the end a page to search it. make test: all tests. make bench: speed, beside peers.
# All of them set up .venv by themselves.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check bench clean

demo: .venv/serve
	$(BIN)/cr5 demo

# Two processes; whichever has nothing left takes over tests of the other. PYTEST=-n0 runs them in one, to debug.
test: .venv/dev
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=90 $(PYTEST)

# One JSON line per figure, on real speeches where they are, on made-up ones otherwise. Best on an idle machine.
SPEECHES ?= $(wildcard ../shared/data/europarl-speeches)

bench: .venv/bench
	@$(BIN)/python benchmarks/kernels.py --quick $(SPEECHES)
	@$(BIN)/python benchmarks/reference.py $(SPEECHES)
	@$(BIN)/python benchmarks/growth.py $(SPEECHES)
	@$(BIN)/python benchmarks/search.py
	@$(if $(SPEECHES),$(BIN)/python benchmarks/features.py $(SPEECHES))

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cr5 needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; name another with make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

.venv/base: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/serve: .venv/base pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[serve]'
	@touch $@

.venv/dev: .venv/base pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.venv/bench: .venv/base pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@
