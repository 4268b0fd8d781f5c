"""The decision figure of docs/start/choosing.md: what do you have, and which call is for it.

python docs/figures/choosing.py
"""

from html import escape

from common import BLUE, CARD, GREEN, HERE, INK, ORANGE, SOFT

# What one has; for each case of it, the call.
PATHS = {
    ("a matrix", ORANGE): {"one target: entries, error or speed": "factorize", "not sure which": "tradeoff"},
    ("an operator", ORANGE): {
        "its entries, or its products": "factorize(…)",
        "eigenvectors": "rotations.fast_eigenbasis",
        "singular vectors": "rotations.fast_svd",
    },
    ("signals", BLUE): {
        "a fast dictionary": "FastDictionaryLearning",
        "a dense one": "KSVD, OnlineDictionaryLearning",
        "codes in a given dictionary": "omp, lasso",
    },
    ("an image", BLUE): {
        "noise to remove": "images.denoise",
        "patterns that stand anywhere": "convolution.convolutional_dictionary",
    },
    ("a graph", GREEN): {"its Fourier transform": "rotations.graph_fourier"},
    ("a layer", GREEN): {
        "a network that is trained": "torch.compress",
        "a layer to be trained": "torch.FastLinear",
    },
}
WIDTH, ROW, GAP, TOP = 940, 34, 18, 66
STARTS = (20, 210, 560)  # Left edges of the three columns.
WIDTHS = (150, 300, 360)


def box(x: float, y: float, width: float, text: str, fill: str, ink: str, kind: str = "") -> str:
    """A rounded box with a line of text."""
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{ROW - 6}" rx="6" fill="{fill}"/>'
        f'<text x="{x + 12}" y="{y + ROW / 2 + 2}" fill="{ink}"{kind}>{escape(text)}</text>'
    )


def arrow(x: float, y: float, to_x: float, to_y: float) -> str:
    """A curved line from one box to another."""
    middle = (x + to_x) / 2
    curve = f"M{x},{y} C{middle},{y} {middle},{to_y} {to_x},{to_y}"
    return f'<path d="{curve}" stroke="{SOFT}" fill="none" stroke-width="1.4"/>'


def figure() -> str:
    """The whole figure, as SVG."""
    parts, y = [], TOP
    code = ' font-family="ui-monospace, Menlo, Consolas, monospace"'
    for (have, colour), cases in PATHS.items():
        middle = y + ROW * (len(cases) - 1) / 2
        parts.append(box(STARTS[0], middle, WIDTHS[0], have, colour, "#ffffff", ' font-weight="600"'))
        for i, (case, call) in enumerate(cases.items()):
            line = y + i * ROW
            level = line + (ROW - 6) / 2
            parts.append(arrow(STARTS[0] + WIDTHS[0], middle + (ROW - 6) / 2, STARTS[1], level))
            parts.append(box(STARTS[1], line, WIDTHS[1], case, "#eef1f5", INK))
            parts.append(arrow(STARTS[1] + WIDTHS[1], level, STARTS[2], level))
            parts.append(box(STARTS[2], line, WIDTHS[2], call, "#fff3e6", INK, code))
        y += len(cases) * ROW + GAP
    heads = zip(STARTS, ("I have …", "and want, or know …", "papilio."), strict=True)
    parts += [f'<text x="{x}" y="44" fill="{SOFT}" font-weight="600">{escape(head)}</text>' for x, head in heads]
    title = "Which call is for a matrix, an operator, signals, an image, a graph or a layer"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
        f'role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="15">'
        f"<title>{title}</title>"
        f'<rect width="{WIDTH}" height="{y}" rx="10" fill="{CARD}"/>' + "\n".join(parts) + "</svg>\n"
    )


if __name__ == "__main__":
    (HERE / "choosing.svg").write_text(figure(), encoding="utf-8")
