"""The help of the command line, from the program itself."""

import inspect
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import typer.main

from papilio.cli.app import app

_OPTION = re.compile(r"(?<![\w`-])--?[a-z][\w-]*")


def pages(root: Path) -> dict[str, str]:
    group: Any = typer.main.get_command(app)
    commands = [_command(name, command) for name, command in group.commands.items()]
    return {"_generated/command_line.md": "\n".join(commands)}


def _command(name: str, command: Any) -> str:
    context = command.make_context(f"papilio {name}", [], resilient_parsing=True)
    usage = " ".join(["papilio", name, *command.collect_usage_pieces(context)])
    rows = [
        f"* - `{record[0].strip()}`\n  - {_prose(record[1])}"
        for parameter in command.get_params(context)
        if (record := _record(parameter, context)) is not None
    ]
    example = (command.epilog or "").rpartition("Example:\n")[2]  # other parts stand before it
    return f"""## papilio {name}

{_paragraphs(command.help)}

```text
{usage}
```

```{{list-table}}
:class: options
:widths: 35 65

{chr(10).join(rows)}
```

```sh
{dedent(example).strip()}
```
"""


def _record(parameter: Any, context: Any) -> tuple[str, str] | None:
    """How a parameter is written, and what it does."""
    if getattr(parameter, "hidden", False) or parameter.name == "help":
        return None
    record = parameter.get_help_record(context)
    if record is None:  # arguments have none in plain click
        return parameter.make_metavar(context), getattr(parameter, "help", "") or ""
    return record


def _prose(text: str) -> str:
    return _marked(" ".join(text.split()))


def _paragraphs(text: str) -> str:
    return _marked(inspect.cleandoc((text or "").replace("\b", "")))


def _marked(text: str) -> str:
    """Plain text as Markdown, with its options as code."""
    return _OPTION.sub(r"`\g<0>`", text.replace("<", "\\<").replace("*", "\\*"))
