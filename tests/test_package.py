"""The package as a whole: what it exports, and how light it is."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import papilio as pp

from .registry import CONSTRAINTS, OPERATORS

SOURCE = Path(pp.__file__).parent
MODULES = sorted(m.name for m in pkgutil.walk_packages(pp.__path__, "papilio."))


def test_every_public_name_loads_and_is_listed():
    for name in pp.__all__:
        assert getattr(pp, name) is not None
    assert set(pp.__all__) <= set(dir(pp))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = pp.nonsense


def test_the_names_for_type_checkers_are_the_names_that_load():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    homes = {alias.asname: node.module for node in block.body for alias in node.names}
    assert set(homes) == set(pp.__all__) - {"__version__"}
    for name, home in homes.items():
        module = importlib.import_module(f"papilio.{home}" if home else "papilio")
        assert getattr(module, name) is getattr(pp, name)


def test_every_public_constraint_is_in_the_registry():
    public = {name for name in pp.constraints.__all__ if not inspect.isabstract(getattr(pp.constraints, name))}
    registered = {type(make()).__name__ for make in CONSTRAINTS.values()}
    assert registered == public


def test_every_public_function_that_makes_operators_is_in_the_registry():
    homes = {"operators.": pp.operators, "transforms.": pp.transforms}
    public = {f"{home}{name}" for home, module in homes.items() for name in module.__all__}
    makers = {
        name
        for name in public
        if name != "operators.from_faust"  # It is tested in test_operator_files.py.
        and getattr(inspect.unwrap(eval(f"pp.{name}")), "__annotations__", {}).get("return") is pp.SparseProduct
        and "load" not in name
    }
    assert makers | {"SparseProduct"} <= set(OPERATORS)
    assert "operators.kron" in makers
    assert "transforms.toeplitz" in makers


def test_no_module_hides_a_public_function():
    modules = {name.split(".")[1] for name in MODULES}
    functions = {name for name in pp.__all__ if inspect.isfunction(getattr(pp, name))}
    assert not modules & functions


def loaded_by(code):
    """The modules outside of the standard library that a new process loads for ``code``."""
    lines = f"import sys; before = set(sys.modules); {code}; print(*set(sys.modules) - before)"
    run = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    return {name for name in run.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}


def test_import_loads_nothing_else():
    assert loaded_by("import papilio") == {"papilio"}


def test_an_operator_loads_neither_numba_nor_scikit_learn_nor_matplotlib():
    loaded = loaded_by("import papilio; papilio.SparseProduct([[[1.0]]]); papilio.transforms.hadamard(4)")
    assert "papilio.operators" in loaded
    assert not loaded & {"numba", "sklearn", "matplotlib", "pywt", "dask", "threadpoolctl"}


def test_the_version_comes_from_one_place():
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/papilio/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", pp.__version__)
    recipe = (SOURCE.parents[1] / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{pp.__version__}"' in recipe
    citation = (SOURCE.parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {pp.__version__}\n" in citation
