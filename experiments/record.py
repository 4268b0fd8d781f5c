"""Which code a run depends on: a hash of what its function `run` can reach, here and in papilio.

Functions, classes and constants are followed by name through all imports. Comments, docstrings and white
space do not count, nor does what only draws figures or writes pages. A module whose name is used in a way that
cannot be followed counts as a whole, so that the hash changes too often rather than too rarely.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import NamedTuple

import papilio

_ROOTS = {"papilio": Path(papilio.__file__).parent, "experiments": Path(__file__).parent}
_ALL = "*"
Place = tuple[str, str]  # a module, and the name of one of its definitions


class Definition(NamedTuple):
    """Some statements of a module: their text, and the names and attributes of names in them."""

    text: str = ""
    names: frozenset[tuple[str, str]] = frozenset()
    imports: tuple[tuple[str, Place], ...] = ()


def code_hash(experiment: str) -> str:
    """A hash of the code that a run of an experiment depends on."""
    return _hash_of((f"experiments.{experiment}", "run"))


@cache
def _hash_of(start: Place) -> str:
    texts = sorted(
        f"{module}.{name}:{definition.text}:{sorted(_uses(module, definition))}"  # imports, too
        for module, name in reached(start)
        for definition in [_definitions(module)[name]]
    )
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def reached(start: Place) -> set[Place]:
    """All definitions that one depends on, with itself."""
    found: set[Place] = set()
    left = [start]
    while left:
        module, name = left.pop()
        path = _path(f"{module}.{name}")
        if path is not None:  # a module, as in ``from papilio import datasets``
            continue
        definitions = _definitions(module)
        if name == _ALL:
            left += [(module, each) for each in definitions]
        elif name in definitions and (module, name) not in found:
            found.add((module, name))
            left += [(module, ""), *_uses(module, definitions[name])]
    return found


def _uses(module: str, definition: Definition) -> Iterator[Place]:
    """Where the names in a definition come from."""
    imports = dict(_definitions(module)[""].imports) | dict(definition.imports)
    for name, attribute in definition.names:
        if name not in imports:
            yield module, name
            continue
        home, original = imports[name]
        target = f"{home}.{original}" if original else home
        if _path(target) is not None:
            yield target, attribute or _ALL
        elif _path(home) is not None:
            yield home, original


@cache
def _path(module: str) -> Path | None:
    """The file of a module of papilio or of the experiments."""
    root, *rest = module.split(".")
    if root not in _ROOTS:
        return None
    stem = _ROOTS[root].joinpath(*rest)
    return next((path for path in (stem / "__init__.py", stem.with_suffix(".py")) if path.is_file()), None)


@cache
def _definitions(module: str) -> dict[str, Definition]:
    """The definitions of a module by name; all other statements, and its imports, have the name ""."""
    path = _path(module)
    assert path is not None
    source = path.read_text(encoding="utf-8")
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(source)
    lines = _without_comments(source, tree)
    found: dict[str, Definition] = {"": Definition()}
    for node in _statements(tree.body):
        names = _names_of(node)
        imports = tuple(_imports(node, package))
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        text = "" if imports and not names else "".join("".join(lines[first - 1 : node.end_lineno]).split())
        for name in names or [""]:
            old = found.get(name, Definition())
            found[name] = Definition(
                old.text + text, old.names | frozenset(_names_in(node)), (*old.imports, *imports)
            )
    for name in [name for name, (home, original) in found[""].imports if name not in found]:
        found[name] = Definition(names=frozenset({(name, "")}))  # what others import from here
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those under a condition such as ``if TYPE_CHECKING``."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _statements(node.body)
        else:
            yield node


def _names_of(node: ast.stmt) -> list[str]:
    """The names that a statement defines, except for imports."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [each.id for target in targets if target for each in ast.walk(target) if isinstance(each, ast.Name)]


def _names_in(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names in a statement, each with the attribute that is taken of it, or ""."""
    inner = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            inner.add(each.value)
            yield each.value.id, each.attr
        elif isinstance(each, ast.Name) and each not in inner:
            yield each.id, ""


def _imports(node: ast.AST, package: str) -> Iterator[tuple[str, Place]]:
    for each in ast.walk(node):
        if isinstance(each, ast.ImportFrom):
            home = resolve_name("." * each.level + (each.module or ""), package)
            yield from ((alias.asname or alias.name, (home, alias.name)) for alias in each.names)
        elif isinstance(each, ast.Import):
            yield from ((alias.asname or alias.name, (alias.name, "")) for alias in each.names)


def _without_comments(source: str, tree: ast.Module) -> list[str]:
    """The lines of a file without comments, as ruff formats them, and docstrings."""
    lines = ["" if line.lstrip().startswith("#") else line.partition("  # ")[0] for line in source.splitlines()]
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
    return lines
