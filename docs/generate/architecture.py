"""A drawing of the package from its imports: each part above those that it imports from."""

from html import escape
from pathlib import Path
from typing import NamedTuple

from tests.test_layout import ROOMS, imports, modules, room_of

WIDTH, HEIGHT, GAP, ROW, MARGIN, PER_CHARACTER = 30, 34, 16, 84, 8, 8.6


class Box(NamedTuple):
    """Where a part of the package is drawn."""

    x: float
    y: float
    width: float


def uses() -> dict[str, set[str]]:
    """Which parts each part imports from when it is loaded."""
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, source, is_package in modules():
        room = room_of(module)
        for imported in imports(source, module, is_package):
            target = room_of(imported.target)
            if room in found and target in found and ROOMS.index(target) < ROOMS.index(room):
                found[room].add(target)
    return found


def layers(used: dict[str, set[str]]) -> list[list[str]]:
    """The parts by the longest way down from each, lowest first."""
    depth: dict[str, int] = {}
    for room in ROOMS:  # each stands after all that it uses
        depth[room] = 1 + max((depth[target] for target in used[room]), default=-1)
    return [[room for room in ROOMS if depth[room] == level] for level in range(max(depth.values()) + 1)]


def without_detours(used: dict[str, set[str]]) -> dict[str, set[str]]:
    """Only the arrows that no longer way replaces."""
    below: dict[str, set[str]] = {}
    for room in ROOMS:
        below[room] = used[room].union(*(below[target] for target in used[room]))
    return {
        room: {target for target in targets if not any(target in below[other] for other in targets)}
        for room, targets in used.items()
    }


def drawing() -> str:
    """The drawing as SVG; its colours are those of the page."""
    used = uses()
    arrows = without_detours(used)
    rows = layers(used)[::-1]
    boxes, width = _places(rows, arrows)
    height = len(rows) * ROW - (ROW - HEIGHT) + 2 * MARGIN
    lines = [
        _arrow(boxes[room], boxes[target], room, target) for room in arrows for target in sorted(arrows[room])
    ]
    shapes = [_box(room, box, used[room]) for room, box in boxes.items()]
    return (
        f'<svg class="architecture" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="Parts of papilio; arrows point to what a part imports from">\n'
        '<defs><marker id="down" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z"/></marker></defs>\n'
        + "\n".join([*lines, *shapes])
        + "\n</svg>"
    )


def _places(rows: list[list[str]], arrows: dict[str, set[str]]) -> tuple[dict[str, Box], float]:
    """Rows that are centred, each in the order of what it is connected with below."""
    sizes = {room: WIDTH + PER_CHARACTER * len(room) for row in rows for room in row}
    lengths = [sum(sizes[room] + GAP for room in row) - GAP for row in rows]
    width = max(lengths) + 2 * MARGIN
    boxes: dict[str, Box] = {}
    for level in range(len(rows) - 1, -1, -1):

        def middle(room: str) -> float:
            below = [boxes[target].x + boxes[target].width / 2 for target in arrows[room]]
            return sum(below) / len(below) if below else width / 2

        x = (width - lengths[level]) / 2
        for room in sorted(rows[level], key=middle):
            boxes[room] = Box(x, MARGIN + level * ROW, sizes[room])
            x += sizes[room] + GAP
    return boxes, width


def _arrow(start: Box, end: Box, room: str, target: str) -> str:
    x, y = start.x + start.width / 2, start.y + HEIGHT
    to_x, to_y = end.x + end.width / 2, end.y - 2
    bend = max(26.0, (to_y - y) * 0.45)
    return (
        f'<path class="arrow" marker-end="url(#down)" d="M{x:.1f},{y:.1f} C{x:.1f},{y + bend:.1f} '
        f'{to_x:.1f},{to_y - bend:.1f} {to_x:.1f},{to_y:.1f}"><title>{room} → {target}</title></path>'
    )


def _box(room: str, box: Box, used: set[str]) -> str:
    what = f"{room} imports from {', '.join(sorted(used)) or 'no other part'}"
    return (
        f'<g class="part"><title>{escape(what)}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{HEIGHT}" rx="8"/>'
        f'<text x="{box.x + box.width / 2:.1f}" y="{box.y + HEIGHT / 2 + 5:.1f}">{room}</text></g>'
    )


def pages(root: Path) -> dict[str, str]:
    return {"_generated/architecture.md": f"```{{raw}} html\n{drawing()}\n```\n"}
