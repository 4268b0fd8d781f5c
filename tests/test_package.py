"""The package as a whole: what it exports, how light it is, which way its imports point."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import papilio as pp

from .registry import CONSTRAINTS

SOURCE = Path(pp.__file__).parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(pp.__path__, "papilio."))

# Each room with the rooms it may import from; a package stands for all its modules.
ROOMS = {
    "validation": set(),
    "kernels": {"validation"},
    "linalg": {"validation"},
    "io": {"validation"},
    "csr": {"validation"},
    "application": {"validation", "kernels", "linalg"},
    "constraints": {"validation", "linalg", "kernels"},
    "indexing": {"validation"},
    "operators": {"validation", "csr", "indexing"},
    "norms": {"linalg", "operators"},
    "thumbnails": {"validation", "operators"},
    "pictures": {"validation", "thumbnails"},
    "notebook": {"validation", "operators", "pictures"},
    "storage": {"validation", "io", "csr", "operators"},
    "moments": {"validation", "linalg", "kernels"},
    "results": {"validation", "io", "operators"},
    "transforms": {"validation", "operators"},
    "solvers": {"validation", "linalg", "kernels", "constraints", "operators", "moments", "results", "transforms"},
    "coding": {"validation", "linalg", "kernels", "operators"},
    "samples": {"validation", "kernels"},
    "checkpoint": {"validation", "io"},
    "dictionary": {
        "validation",
        "linalg",
        "kernels",
        "operators",
        "moments",
        "results",
        "coding",
        "solvers",
        "samples",
        "checkpoint",
    },
    "estimators": {
        "validation",
        "kernels",
        "samples",
        "checkpoint",
        "operators",
        "results",
        "transforms",
        "coding",
        "metrics",
        "solvers",
        "dictionary",
    },
    "dial": {"validation", "results", "solvers", "dictionary"},
    "datasets": {"validation", "linalg", "operators", "samples"},
    "metrics": {"validation", "linalg", "csr", "operators"},
    "images": {"validation", "operators", "results", "coding", "solvers", "dictionary"},
    "plot": {"validation", "operators", "results", "thumbnails"},
    "experiments": {
        "io",
        "validation",
        "kernels",
        "constraints",
        "operators",
        "results",
        "transforms",
        "solvers",
        "coding",
        "dictionary",
        "datasets",
        "metrics",
        "images",
        "plot",
    },
    "speed": {"validation", "kernels", "operators"},
    "report": {"validation", "operators", "results", "thumbnails", "pictures", "speed"},
}
# What functions may import besides, when they are first called: conveniences that lead to later rooms.
WHEN_CALLED = {
    "operators": {"application", "norms", "storage", "plot", "notebook"},
    "results": {"plot"},
}


def test_every_public_name_loads_and_is_listed():
    for name in pp.__all__:
        assert getattr(pp, name) is not None
    assert set(pp.__all__) <= set(dir(pp))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = pp.nonsense


def test_the_names_for_type_checkers_are_the_names_that_load():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    names = {alias.asname for node in block.body for alias in node.names}
    assert names == set(pp.__all__) - {"__version__"}


def test_every_public_constraint_is_in_the_registry():
    public = {name for name in pp.constraints.__all__ if not inspect.isabstract(getattr(pp.constraints, name))}
    registered = {type(make()).__name__ for make in CONSTRAINTS.values()}
    assert registered == public


def test_no_module_hides_a_public_function():
    modules = {name.split(".")[1] for name in MODULES}
    functions = {name for name in pp.__all__ if inspect.isfunction(getattr(pp, name))}
    assert not modules & functions


def test_imports_point_one_way():
    for room, allowed in ROOMS.items():
        path = SOURCE / room
        files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            depth = len(file.relative_to(SOURCE).parts)
            tree = ast.parse(file.read_text())
            # In functions, and under `if TYPE_CHECKING`: not loaded with the module.
            places = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.If)]
            late = {id(node) for place in places for node in ast.walk(place)}
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.level == depth:
                    imported = {node.module.split(".")[0]} if node.module else {a.name for a in node.names}
                    besides = WHEN_CALLED.get(room, set()) if id(node) in late else set()
                    assert imported <= allowed | {room} | besides, f"{file} imports {imported}"


def test_every_room_has_its_rules():
    rooms = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "cli"} == set(ROOMS)


def _seconds_to_import(statement):
    code = f"from time import perf_counter as t; b = t(); {statement}; print(t() - b)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)
    ]
    return min(float(run.stdout) for run in runs)


def test_import_is_as_light_as_scipys_linear_operators():
    assert _seconds_to_import("import papilio") <= _seconds_to_import("import scipy.sparse.linalg") + 0.15


def test_import_and_an_operator_load_neither_numba_nor_scikit_learn_nor_matplotlib():
    code = (
        "import sys, papilio; papilio.SparseProduct([[[1.0]]]); papilio.transforms.hadamard(4);"
        "print(sorted({'numba', 'sklearn', 'matplotlib', 'pywt'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_version_comes_from_one_place():
    from importlib.metadata import version

    assert version("papilio") == pp.__version__


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", sorted(set(pp.__all__) - {"__version__"}))
def test_public_names_are_documented(name):
    thing = getattr(pp, name)
    assert thing.__doc__
    if inspect.isclass(thing):
        for method, value in vars(thing).items():
            if not method.startswith("_") and callable(value):
                assert inspect.getdoc(value), f"{name}.{method}"
