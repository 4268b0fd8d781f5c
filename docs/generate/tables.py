"""Small pieces of Markdown that several pages use."""

import re

# What a cell says about an aim or a claim, and the colour of its badge.
BADGES = {
    "yes": "success",
    "**no**": "danger",
    "**holds**": "success",
    "**better**": "success",
    "**differs**": "danger",
    "**not tried**": "secondary",
}


def cells(line: str) -> list[str]:
    """The cells of a line of a table; none of another line."""
    line = line.strip()
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") and line.endswith("|") else []


def with_badges(text: str) -> str:
    """A text whose tables say in colour whether an aim was met or a claim holds."""
    lines = []
    for line in text.splitlines():
        row = cells(line)
        changed = [f"{{bdg-{BADGES[cell]}}}`{cell.strip('*')}`" if cell in BADGES else cell for cell in row]
        lines.append(f"| {' | '.join(changed)} |" if row != changed else line)
    return "\n".join(lines) + "\n"


def slug(title: str) -> str:
    """The anchor of a heading, as MyST makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
