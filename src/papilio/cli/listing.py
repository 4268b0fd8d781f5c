"""``papilio inputs``."""

from .built_in import BUILT_IN
from .formats import READERS
from .options import Json, Quiet
from .terminal import Terminal, table


def inputs(quiet: Quiet = False, json: Json = False) -> None:
    """List what commands can read: built-in data and file formats."""
    terminal = Terminal(quiet, json)
    terminal.result(
        {
            "built_in": {
                name: {"kind": str(each.kind), "example": each.example, "number": each.number, "about": each.about}
                for name, each in BUILT_IN.items()
            },
            "formats": list(READERS),
        }
    )
    listing = table(
        "Built in", "example", "what it is", "the number", "kind", n_texts=4, wraps=["what it is", "the number"]
    )
    for each in BUILT_IN.values():
        listing.add_row(each.example, each.about, each.number, str(each.kind))
    terminal.say(listing)
    terminal.say(f"Files: {', '.join(READERS)}")
    terminal.say("FILE:NAME selects one of several matrices in .npz and .mat files.")
