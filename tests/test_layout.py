"""The rooms of the package, and which way their imports point."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import papilio as pp

SOURCE = Path(pp.__file__).parent

# A room, which is a module or a package of the top level, imports only from rooms that stand before it.
ROOMS = (
    "typing",
    "validation",
    "linalg",
    "runtime",
    "kernels",
    "operators",
    "constraints",
    "results",
    "solvers",
    "samples",
    "transforms",
    "rotations",
    "convolution",
    "nonnegative",
    "search",
    "torch",
    "coding",
    "dictionary",
    "metrics",
    "datasets",
    "images",
    "plot",
    "report",
    "testing",
    "cli",
    "__main__",
)
MOST_ENTRIES = 28
# The other way only in functions, when they are called: `op.plot()`, `op.to_torch()`, `fit.plot()`,
# `Schedule.with_speedup`, and the dictionary that `LearnedEncoder` learns by default are worth it.
UPWARDS = {
    ("operators", "plot"),
    ("operators", "torch"),
    ("results", "plot"),
    ("solvers", "search"),
    ("coding", "dictionary"),
}
# These import modules whose names are only known when the program runs.
BY_NAME = {"papilio"}


class Import(NamedTuple):
    target: str
    in_function: bool


def imports(source: str, module: str, is_package: bool = False) -> Iterator[Import]:
    """All modules and names that a module imports, under absolute names; not what only type checkers see."""
    package = module if is_package else module.rpartition(".")[0]
    return _imports(ast.parse(source), package, in_function=False)


def _imports(node: ast.AST, package: str, in_function: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, in_function) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parts = package.split(".")
        start = parts[: len(parts) - node.level + 1] if node.level else []
        origin = ".".join([*start, *([node.module] if node.module else [])])
        yield from (Import(f"{origin}.{alias.name}", in_function) for alias in node.names)
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in ("import_module", "__import__"):
            yield Import(name, in_function)
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        children = iter(node.orelse)
    in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in children:
        yield from _imports(child, package, in_function)


def room_of(name: str) -> str | None:
    """The room of an absolute name; None outside of the package, "" for the package itself."""
    root, _, rest = name.partition(".")
    return rest.partition(".")[0] if root == "papilio" else None


def fault(module: str, imported: Import) -> str | None:
    """What is wrong with an import, if anything is."""
    room, target = room_of(module), room_of(imported.target)
    if imported.target in ("import_module", "__import__"):
        return None if module in BY_NAME else "imports by a name that is not known before the program runs"
    if target is None or target == room or imported.target == "papilio.__version__":
        return None
    if room == "":
        return "the package loads its names when they are used"
    if imported.target == "papilio" and room == "cli":
        return None  # it sees the whole package as users do
    if target not in ROOMS:
        return "names come from the room that defines them, not from the top of the package"
    if ROOMS.index(target) < ROOMS.index(room) or (imported.in_function and (room, target) in UPWARDS):
        return None
    return f"{room} imports from {target}, which stands after it"


def modules() -> Iterator[tuple[str, str, bool]]:
    """Each module of the package: its name, its source, and whether it is a package."""
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ["papilio", *path.relative_to(SOURCE).with_suffix("").parts]
        is_package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if is_package else parts), path.read_text(), is_package


@cache
def all_imports() -> list[tuple[str, Import]]:
    """What each module of the package imports."""
    return [
        (module, imported)
        for module, source, is_package in modules()
        for imported in imports(source, module, is_package)
    ]


def test_imports_point_downwards():
    faults = [
        f"{module}: {imported.target}: {wrong}"
        for module, imported in all_imports()
        if (wrong := fault(module, imported))
    ]
    assert faults == []


def test_every_exception_is_in_use():
    used = {
        (room_of(module), room_of(imported.target)) for module, imported in all_imports() if imported.in_function
    }
    assert used >= UPWARDS
    by_name = {module for module, source, _ in modules() if "import_module" in source}
    assert by_name == BY_NAME


def test_no_file_name_occurs_twice():
    names = Counter(path.name for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    assert [name for name, times in names.items() if times > 1] == []


def test_a_newcomer_finds_some_twenty_rooms():
    entries = {path.stem for path in SOURCE.iterdir() if path.name not in ("__pycache__", "py.typed")}
    assert entries == {"__init__", *ROOMS}
    assert len(entries) <= MOST_ENTRIES
