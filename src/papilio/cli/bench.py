"""``papilio bench``."""

from typing import Annotated

import typer

import papilio as pp

from ..operators.speed import both_ways
from ..validation import as_real
from .inputs import as_dense, read_operator
from .options import Json, Quiet
from .progress import ProgressBar
from .terminal import Terminal, gain_cell, sentence, table

_AN_HOUR = 3600.0


def bench(
    operator: Annotated[str, typer.Argument(help="Operator.")],
    block: Annotated[int, typer.Option(min=1, help="Vectors in a block.")] = 256,
    seconds: Annotated[float, typer.Option(min=0, help="Time for each measurement.")] = 0.5,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure how much faster an operator is than its dense matrix."""
    terminal = Terminal(quiet, json)
    seconds = as_real("--seconds", seconds, 0, _AN_HOUR)
    op = read_operator(operator)
    dense = as_dense(operator, op)
    speeds = []
    with ProgressBar(terminal, "Measuring") as bar:
        for speed in both_ways(op, dense, block, seconds):
            speeds.append(speed)
            bar.advance(len(speeds) / 4)
    terminal.result(
        {
            "threads": pp.get_num_threads(),
            "measurements": [
                {"form": s.form, "vectors": s.vectors, "dense_seconds": s.dense, "product_seconds": s.product}
                | {"speed_up": s.gain}
                for s in speeds
            ],
        }
    )
    terminal.say(sentence(op))
    listing = table(None, "", "vectors", "dense, µs", "product, µs", "speed-up", wraps=["speed-up"])
    for s in speeds:
        listing.add_row(
            s.form, str(s.vectors), f"{1e6 * s.dense:,.1f}", f"{1e6 * s.product:,.1f}", gain_cell(s.gain)
        )
    terminal.say(listing)
