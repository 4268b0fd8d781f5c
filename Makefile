# Every target sets up .venv by itself; nothing else needs to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DOCS := $(VENV)/.ready-docs
READY_TORCH := $(VENV)/.ready-torch
READY_RELEASE := $(VENV)/.ready-release
SITE := docs/_build/html
SPHINX := $(BIN)/python -m sphinx -W --keep-going -n -q -b html
# One process a core; one that has run out of tests takes over some of another's.
PYTEST_OPTIONS := --numprocesses auto --maxprocesses 4 --dist worksteal
FRESH := $(PYTHON) scripts/fresh.py
# Bytecode is kept even where the environment says otherwise: tests start many processes, and rewritten asserts take seconds.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(PYTEST_OPTIONS)

.PHONY: help setup demo reproduce test test-slow test-all test-torch test-examples test-pythons test-lowest fuzz lint types \
        format bench docs docs-fast docs-open dist test-wheel test-sdist check-release \
        public-names clean

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
	$(FRESH) tests

test-lowest:  ## run the fast tests with the lowest versions of what papilio depends on
	$(FRESH) lowest

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

$(READY_RELEASE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,release]'
	@touch $@

dist: $(READY_RELEASE)  ## build the wheel and the source archive into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

test-wheel: dist  ## use the wheel outside of the clone, in a fresh environment on each Python
	$(FRESH) wheel

test-sdist: dist  ## run the fast tests of the unpacked source archive on the newest Python
	$(FRESH) sdist 3.13

check-release: $(READY_RELEASE)  ## check the workflows, the recipe, the citation and the paper against their formats
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/python scripts/render_recipe.py
	$(BIN)/python -m pytest -q tests/test_package.py tests/test_paper.py tests/test_public_names.py

public-names: $(READY_TORCH)  ## write the kept list of public names and their parameters anew
	$(BIN)/python scripts/public_names.py

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis \
		docs/_build docs/_generated docs/gallery docs/reference/generated docs/benchmarks docs/results \
		docs/changelog.md docs/contributing.md docs/security.md
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
