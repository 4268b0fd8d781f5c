"""Docstrings are written for the terminal: plain text with backticks. Other signs are kept from Sphinx."""

import re
from typing import Any

from sphinx.application import Sphinx

_CODE = re.compile(r"(``.+?``|`.+?`)")
_SIGN = re.compile(r"[|*]|(?<=\w)_(?!\w)")  # a substitution, emphasis, a link
_NAMES = re.compile(r"^\s*\*{0,2}\w+(, \*{0,2}\w+)*( : |$)")  # Names of parameters, which numpydoc formats itself.


def escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Put a backslash before signs that would be markup, but for code and examples."""
    in_example = False
    for i, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            names = _NAMES.match(line)
            start = names.end() if names else 0
            lines[i] = line[:start] + escaped(line[start:])


def escaped(text: str) -> str:
    """A text whose signs are no markup, but for what stands in backticks."""
    parts = _CODE.split(text)
    return "".join(part if place % 2 else _SIGN.sub(r"\\\g<0>", part) for place, part in enumerate(parts))
