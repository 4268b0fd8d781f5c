"""Write tests/public_names.txt: every public name with its parameters, so that a change is seen in review.

``make public-names``, or ``python scripts/public_names.py`` where PyTorch is installed. A test compares.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

import papilio
from papilio.cli.app import app

FILE = Path(__file__).resolve().parents[1] / "tests" / "public_names.txt"


def lines(modules: tuple[str, ...] = (*papilio._MODULES, "torch")) -> list[str]:
    """One line a name, sorted; names at the top of papilio, too, are there only."""
    found, seen = [], set()
    for module in ("papilio", *(f"papilio.{name}" for name in modules)):
        home = importlib.import_module(module)
        for name in home.__all__:
            thing = getattr(home, name)
            if id(thing) not in seen and not inspect.ismodule(thing):
                seen.add(id(thing))
                found += described(f"{module}.{name}", thing)
    return sorted(found) + commands()


def commands() -> list[str]:
    """One line a command, with its options."""
    group: Any = typer.main.get_command(app)
    return [
        " ".join(["$ papilio", name, *(max(parameter.opts, key=len) for parameter in command.params)])
        for name, command in sorted(group.commands.items())
    ]


def described(name: str, thing: Any) -> Iterator[str]:
    """The line of a name, and those of what a class has of papilio's own."""
    yield name + signature(thing)
    if inspect.isclass(thing):
        ours = [base for base in thing.__mro__ if base.__module__.startswith("papilio")]
        for key in {key for base in ours for key in vars(base) if not key.startswith("_")}:
            member = inspect.getattr_static(thing, key)
            yield f"{name}.{key}{signature(getattr(member, '__func__', member))}"


def signature(thing: Any) -> str:
    """The parameters of a function or class with their defaults, nothing for values and properties."""
    if not callable(thing):
        return ""
    try:
        found = inspect.signature(thing)
    except ValueError:  # the constructor of a built-in class
        return "()"
    bare = [
        each.replace(annotation=each.empty)
        for each in found.parameters.values()
        if each.name not in ("self", "cls")
    ]
    text = str(found.replace(parameters=bare, return_annotation=found.empty))
    return re.sub(r"<.*?>", "…", text)  # defaults that are objects


def main() -> None:
    FILE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
    sys.stdout.write(f"{FILE}: {len(lines())} names\n")


if __name__ == "__main__":
    main()
