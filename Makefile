# make demo: train on the built-in encyclopedia, evaluate, and serve a search page. make test: all tests. make test-fast: the
# quick ones. make bench: speed, beside other libraries. make docs: the documentation site. Each of them sets up .venv itself.

PYTHON ?= python3
BIN := .venv/bin
# uv installs in seconds what takes pip minutes; without it pip does.
INSTALL := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)

# The tests start many processes: each would compile the modules again if Python did not keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast test-lowest coverage check bench docs clean

demo: .venv/serve
	$(BIN)/cr5 demo

# In four processes that share the work, for two cores: some tests wait for servers, browsers and worker processes.
# PYTEST=-n0 runs all tests in one, to debug.
test: .venv/dev
	$(BIN)/python -m pytest -n 4 --dist worksteal $(PYTEST)

# All tests, and which lines of the package none of them reaches.
coverage: .venv/dev
	$(BIN)/python -m pytest -n 4 --dist worksteal --cov --cov-report=term --cov-fail-under=90 $(PYTEST)

test-fast: .venv/dev
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not browser and not services and not dask and not slow" \
		--hypothesis-profile=quick $(PYTEST)

# With the lowest versions of all dependencies that pyproject.toml allows. Old versions may warn about newer ones.
test-lowest: .venv-lowest/dev
	.venv-lowest/bin/python -m pytest -n 3 --dist worksteal -m "not browser and not services and not dask and not slow" \
		--hypothesis-profile=quick -W ignore::DeprecationWarning -W ignore::FutureWarning \
		-W "ignore:The 'validate_default' attribute:UserWarning" $(PYTEST)

docs: .venv/dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "the site is in build/site; open build/site/index.html, or for its search: python3 -m http.server -d build/site"

# One JSON line per figure, in less than ten minutes on two idle cores: sizes are smaller than those in the results. On the real
# speeches of the benchmark corpora with DATA=folder, on generated ones otherwise, where the last comparison is left out.
DATA ?= $(wildcard ../shared/data)
SPEECHES ?= $(wildcard $(DATA)/europarl-speeches)

bench: .venv/bench
	@$(BIN)/python benchmarks/kernels.py --quick $(SPEECHES)
	@$(BIN)/python benchmarks/reference.py --speeches 8000 $(SPEECHES)
	@$(BIN)/python benchmarks/growth.py --sizes 2000 4000 8000 16000 --repeats 1 $(SPEECHES)
	@$(BIN)/python benchmarks/search.py --candidates 100000 --turns 5
	@$(if $(SPEECHES),$(BIN)/python benchmarks/features.py $(SPEECHES))

check: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-lowest

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cr5 needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; name another with make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

.venv-lowest/dev: pyproject.toml
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	@touch $@

.venv/base: .venv/bin/python pyproject.toml
	$(INSTALL) --editable .
	@touch $@

.venv/serve: .venv/base pyproject.toml
	$(INSTALL) --editable '.[serve]'
	@touch $@

.venv/dev: .venv/base pyproject.toml
	$(INSTALL) --editable '.[dev]'
	@touch $@

.venv/bench: .venv/base pyproject.toml
	$(INSTALL) --editable '.[bench]'
	@touch $@
