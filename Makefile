# Every target sets up .venv by itself; nothing else needs to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DOCS := $(VENV)/.ready-docs
READY_TORCH := $(VENV)/.ready-torch
SITE := docs/_build/html
SPHINX := $(BIN)/python -m sphinx -W --keep-going -n -q -b html
# One process a core; one that has run out of tests takes over some of another's.
PYTEST_OPTIONS := --numprocesses auto --maxprocesses 4 --dist worksteal
# Bytecode is kept even where the environment says otherwise: tests start many processes, and rewritten asserts take seconds.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(PYTEST_OPTIONS)

.PHONY: help setup demo reproduce test test-slow test-all test-torch test-examples test-pythons fuzz lint types format bench docs docs-fast docs-open \
        clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(READY)  ## create .venv with papilio and its tools

demo: $(READY)  ## do the main job on built-in data, with figures
	$(BIN)/papilio demo --output demo-output

reproduce: $(READY)  ## repeat an experiment: NAME=figure3 ARGS='--preset tiny'; without NAME, list them
	@$(BIN)/python -m experiments $(NAME) $(ARGS)

test: $(READY)  ## run the fast tests
	$(PYTEST)

test-slow: $(READY)  ## run the slow tests
	$(PYTEST) -m slow

test-all: $(READY_TORCH)  ## run every test
	$(PYTEST) -m ''

$(READY_TORCH): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,torch,jax,onnx]' \
		onnxruntime onnxscript
	@touch $@

test-torch: $(READY_TORCH)  ## run the tests that need PyTorch, JAX or ONNX, slow ones included; installs them
	$(PYTEST) -m 'not examples' tests/torch tests/test_arrays.py tests/test_export.py tests/test_documentation.py

test-examples: $(READY_TORCH)  ## run every example, and the code of every page of the documentation
	$(PYTEST) -m examples

test-pythons:  ## run the fast tests on each Python from 3.11 to 3.13 that is installed
	scripts/test_pythons.sh $(PYTEST_OPTIONS)

fuzz: $(READY)  ## many new random cases of every kind: ten minutes or more
	$(PYTEST) -m slow --hypothesis-profile fuzz tests/fuzz

lint: $(READY)  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## check types
	$(BIN)/mypy

format: $(READY)  ## rewrite files in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## measure against the peers, writes benchmarks/RESULTS.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	$(BIN)/python benchmarks/run.py

$(READY_DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@

docs: $(READY_DOCS)  ## build the site, with every example of the gallery run: some minutes
	$(SPHINX) docs $(SITE)
	$(BIN)/python docs/check_links.py $(SITE)
	@echo "Open file://$(CURDIR)/$(SITE)/index.html"

docs-fast: $(READY_DOCS)  ## build the site without running the gallery, as CI does
	$(SPHINX) -D plot_gallery=0 -d $(SITE)-fast/.doctrees docs $(SITE)-fast
	$(BIN)/python docs/check_links.py $(SITE)-fast

docs-open: docs  ## build the site and show it in a browser
	$(BIN)/python -m webbrowser "file://$(CURDIR)/$(SITE)/index.html"

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) $(VENV)-3.* demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		docs/_build docs/_generated docs/gallery docs/reference/generated docs/benchmarks docs/results \
		docs/changelog.md docs/contributing.md docs/security.md
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
