"""A drawing of the package from its imports: each part above those that it imports from."""

from html import escape
from itertools import pairwise
from pathlib import Path

from tests.test_layout import ROOMS, imports, modules, room_of

HEIGHT, GAP, ROW, MARGIN = 34, 18, 82, 8
PADDING, PER_CHARACTER, LANE = 26, 8.6, 8  # of boxes, and the width of an arrow on its way through a row

Node = tuple[str, ...]  # (part,), or (part, target, row) where an arrow passes a row


def uses() -> dict[str, set[str]]:
    """Which parts each part imports from; imports within functions that point upwards are left out."""
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, source, is_package in modules():
        room = room_of(module)
        for imported in imports(source, module, is_package):
            target = room_of(imported.target)
            if room in found and target in found and ROOMS.index(target) < ROOMS.index(room):
                found[room].add(target)
    return found


def depths(used: dict[str, set[str]]) -> dict[str, int]:
    """The length of the longest way down from each part."""
    depth: dict[str, int] = {}
    for room in ROOMS:  # each stands after all that it uses
        depth[room] = 1 + max((depth[target] for target in used[room]), default=-1)
    return depth


def without_detours(used: dict[str, set[str]]) -> dict[str, set[str]]:
    """Only the arrows that no longer way replaces."""
    below: dict[str, set[str]] = {}
    for room in ROOMS:
        below[room] = used[room].union(*(below[target] for target in used[room]))
    return {
        room: {target for target in targets if not any(target in below[other] for other in targets)}
        for room, targets in used.items()
    }


def ways(used: dict[str, set[str]]) -> list[list[Node]]:
    """Each arrow as the nodes that it passes, one per row, from the top down."""
    depth = depths(used)
    return [
        [(room,), *((room, target, str(row)) for row in range(depth[room] - 1, depth[target], -1)), (target,)]
        for room, targets in without_detours(used).items()
        for target in sorted(targets)
    ]


def rows_of(used: dict[str, set[str]], arrows: list[list[Node]]) -> list[list[Node]]:
    """The nodes of each row, lowest row first, in an order in which few arrows cross."""
    depth = depths(used)
    rows: list[list[Node]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in dict.fromkeys([*((room,) for room in ROOMS), *(node for way in arrows for node in way)]):
        rows[int(node[2]) if len(node) == 3 else depth[node[0]]].append(node)
    neighbours: dict[Node, list[Node]] = {node: [] for row in rows for node in row}
    for way in arrows:
        for upper, lower in pairwise(way):
            neighbours[upper].append(lower)
            neighbours[lower].append(upper)
    for _ in range(24):  # each row by the mean place of its neighbours, up and down in turns
        place = {node: _middles(row)[i] for row in rows for i, node in enumerate(row)}
        for row in [*rows, *reversed(rows)]:
            row.sort(
                key=lambda node: sum(place[other] for other in neighbours[node]) / max(1, len(neighbours[node]))
            )
            place |= dict(zip(row, _middles(row), strict=True))
    return rows


def _width(node: Node) -> float:
    return PADDING + PER_CHARACTER * len(node[0]) if len(node) == 1 else LANE


def _middles(row: list[Node]) -> list[float]:
    """The middles of the nodes of a row, which is centred at zero."""
    x = -(sum(map(_width, row)) + GAP * (len(row) - 1)) / 2
    middles = []
    for node in row:
        middles.append(x + _width(node) / 2)
        x += _width(node) + GAP
    return middles


def drawing() -> str:
    """The drawing as SVG; its colours are those of the page."""
    used = uses()
    arrows = ways(used)
    rows = rows_of(used, arrows)
    middles = {node: x for row in rows for node, x in zip(row, _middles(row), strict=True)}
    half = max(abs(x) + _width(node) / 2 for node, x in middles.items()) + MARGIN
    tops = {node: MARGIN + ROW * level for level, row in enumerate(reversed(rows)) for node in row}
    places = {node: (x + half, tops[node]) for node, x in middles.items()}
    shapes = [_arrow(way, places) for way in arrows]
    shapes += [_box(node, places[node], used[node[0]]) for node in places if len(node) == 1]
    height = ROW * (len(rows) - 1) + HEIGHT + 2 * MARGIN
    return (
        f'<svg class="architecture" viewBox="0 0 {2 * half:.0f} {height}" role="img" '
        f'style="max-width: {2 * half:.0f}px" '
        'aria-label="Parts of papilio; arrows point to what a part imports from">\n'
        '<defs><marker id="down" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z"/></marker></defs>\n' + "\n".join(shapes) + "\n</svg>"
    )


def _arrow(way: list[Node], places: dict[Node, tuple[float, float]]) -> str:
    """A curve that leaves and enters every row vertically."""
    x, y = places[way[0]]
    path = f"M{x:.1f},{y + HEIGHT:.1f}"
    for upper, lower in pairwise(way):
        (x, y), (to_x, to_y) = places[upper], places[lower]
        y, to_y = y + HEIGHT, to_y - (2 if lower is way[-1] else 0)
        bend = (to_y - y) / 2
        path += f" C{x:.1f},{y + bend:.1f} {to_x:.1f},{to_y - bend:.1f} {to_x:.1f},{to_y:.1f}"
        path += "" if lower is way[-1] else f" V{to_y + HEIGHT:.1f}"
    title = f"{way[0][0]} → {way[-1][0]}"
    return f'<path class="arrow" marker-end="url(#down)" d="{path}"><title>{title}</title></path>'


def _box(node: Node, place: tuple[float, float], used: set[str]) -> str:
    (x, y), width = place, _width(node)
    what = f"{node[0]} imports from {', '.join(sorted(used)) or 'no other part'}"
    return (
        f'<g class="part"><title>{escape(what)}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="8"/>'
        f'<text x="{x:.1f}" y="{y + HEIGHT / 2 + 5}">{node[0]}</text></g>'
    )


def pages(root: Path) -> dict[str, str]:
    return {"_generated/architecture.md": f"```{{raw}} html\n{drawing()}\n```\n"}
