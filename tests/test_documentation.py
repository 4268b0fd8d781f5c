"""Public names are documented: what they do, each of their parameters, and an example that runs."""

import doctest
import importlib.util
import inspect
import pkgutil
import re
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import EnumType
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Any

import pytest

import papilio as pp

HAS_TORCH = importlib.util.find_spec("torch") is not None
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(pp.__path__, "papilio.")
    if HAS_TORCH or not module.name.startswith("papilio.torch")
)
PUBLIC_MODULES = pp._MODULES

# Parameters that are `Any` on purpose, with the reason.
ANY = dict.fromkeys(("ax", "axes"), "matplotlib's Axes, and matplotlib is optional")
ANY_IN_ESTIMATORS = {"X": "scikit-learn checks it", "y": "ignored, by scikit-learn's convention"}


def public() -> dict[str, Any]:
    """Functions and classes under their public names, each once."""
    found = {name: getattr(pp, name) for name in pp.__all__}
    for module in PUBLIC_MODULES:
        found |= {f"{module}.{name}": getattr(found[module], name) for name in found[module].__all__}
    if HAS_TORCH:  # `make test-torch` installs it.
        module = importlib.import_module("papilio.torch")
        found |= {f"torch.{name}": getattr(module, name) for name in module.__all__}
    first = {id(thing): name for name, thing in reversed(found.items())}
    return {name: thing for name, thing in found.items() if callable(thing) and first[id(thing)] == name}


def methods(cls: type) -> list[Callable[..., Any]]:
    """The public methods that papilio defines in a class or in its bases."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("papilio")]
    named = {name: value for base in reversed(ours) for name, value in vars(base).items() if name[0] != "_"}
    functions = [getattr(value, "__func__", value) for value in named.values()]
    return [function for function in functions if inspect.isfunction(function)]


PUBLIC = public()
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}
METHODS = {method.__qualname__: method for cls in CLASSES.values() for method in methods(cls)}
OF_ESTIMATORS = {
    method.__qualname__ for cls in CLASSES.values() if hasattr(cls, "get_params") for method in methods(cls)
}


# -- what a docstring holds ------------------------------------------------------------------------------


def own_doc(thing: Any) -> str:
    """What somebody wrote about this very thing: neither inherited nor generated."""
    doc = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    generated = inspect.isclass(thing) and (doc or "").startswith(f"{thing.__name__}(")
    return "" if generated else inspect.cleandoc(doc or "")


def section(doc: str, title: str) -> list[str]:
    """The lines of a numpydoc section."""
    lines = doc.splitlines()
    for i, (line, below) in enumerate(pairwise(lines)):
        if line == title and set(below) == {"-"}:
            rest = lines[i + 2 :]
            ends = [j for j, dashes in enumerate(rest) if len(dashes) > 2 and set(dashes) == {"-"}]
            return rest[: ends[0] - 1] if ends else rest
    return []


def documented(doc: str, title: str) -> set[str]:
    """The names that a section describes: ``a, b : int`` describes two."""
    heads = [line.split(" : ")[0].removesuffix(" :") for line in section(doc, title) if re.match(r"[\w*]", line)]
    return {name.strip(" *") for head in heads for name in head.split(",")}


def parameters(thing: Any) -> dict[str, inspect.Parameter]:
    if inspect.isclass(thing):
        maker = next(base for base in thing.__mro__ if {"__init__", "__new__"} & vars(base).keys())
        if isinstance(thing, EnumType) or maker.__module__ == "builtins":
            return {}  # Python made the constructor.
    found = inspect.signature(thing).parameters
    return {name: parameter for name, parameter in found.items() if name not in ("self", "cls")}


def missing_parameters(thing: Any) -> str:
    """The parameters that the docstring of a function or class does not describe by name.

    The fields of a dataclass or named tuple, which are its parameters, may be described as attributes.
    """
    doc = own_doc(thing) or (inspect.getdoc(thing) or "" if inspect.isfunction(thing) else "")
    names = documented(doc, "Parameters")
    if is_dataclass(thing) or hasattr(thing, "_fields"):
        names |= documented(doc, "Attributes")
    return " ".join(name for name in parameters(thing) if name not in names)


@cache
def runs(module: str) -> dict[str, doctest.TestResults]:
    """What came of the examples in each docstring of a module."""
    finder, runner = doctest.DocTestFinder(exclude_empty=False), doctest.DocTestRunner()
    return {test.name: runner.run(test) for test in finder.find(importlib.import_module(module))}


def n_run(result: doctest.TestResults) -> int:
    """How many examples have run; from Python 3.13 on, those attempted include those skipped."""
    return result.attempted - getattr(result, "skipped", 0)


# -- checks of public names ------------------------------------------------------------------------------


def test_public_names_say_what_they_are():
    assert [name for name, thing in PUBLIC.items() if not own_doc(thing)] == []


def test_public_methods_say_what_they_do():
    assert [name for name, method in METHODS.items() if not inspect.getdoc(method)] == []


def test_public_properties_say_what_they_are():
    silent = []
    for name, cls in CLASSES.items():
        named = documented(own_doc(cls), "Attributes") | documented(own_doc(cls), "Parameters")
        properties = [key for key, value in vars(cls).items() if isinstance(value, property) and not value.__doc__]
        silent += [f"{name}.{key}" for key in properties if key[0] != "_" and key not in named]
    assert silent == []


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true_and_no_section_of_examples_is_without_one(name):
    assert [example for example, result in runs(name).items() if result.failed] == []
    for found in doctest.DocTestFinder().find(importlib.import_module(name)):
        if section(inspect.cleandoc(found.docstring), "Examples"):
            assert n_run(runs(name)[found.name]) > 0, found.name


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_has_run(name):
    thing = PUBLIC[name]
    result = runs(thing.__module__)[f"{thing.__module__}.{thing.__qualname__}"]
    assert n_run(result) > 0


def test_every_parameter_is_described():
    missing = {name: missing_parameters(thing) for name, thing in (PUBLIC | METHODS).items()}
    assert {name: parameters for name, parameters in missing.items() if parameters} == {}


def says_nothing(annotation: Any) -> bool:
    """Whether an annotation, which may be a string, is missing, ``Any``, or a union with it."""
    if isinstance(annotation, str):
        return "Any" in re.split(r"\W*\|\W*", annotation.strip())
    is_union = typing.get_origin(annotation) in (typing.Union, UnionType)
    parts = typing.get_args(annotation) if is_union else (annotation,)
    return Any in parts or inspect.Parameter.empty in parts


def annotated_any(thing: Any) -> list[str]:
    """The parameters of which a signature says nothing."""
    return [name for name, parameter in parameters(thing).items() if says_nothing(parameter.annotation)]


def test_signatures_say_what_they_take():
    found = {}
    for name, thing in (PUBLIC | METHODS).items():
        allowed = ANY | (ANY_IN_ESTIMATORS if name in OF_ESTIMATORS else {})
        found[name] = " ".join(each for each in annotated_any(thing) if each not in allowed)
    # An array of any library, and a device as that library has it.
    taken = {"SparseProduct.dot": "x", "SparseProduct.to": "device"}
    assert {name: parameters for name, parameters in found.items() if parameters} == taken
