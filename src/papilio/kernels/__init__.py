"""Numba functions on plain arrays. Compiling them takes long enough to say so."""

import os
import sys

from numba.core import event

from ..runtime.session import write_line

_NOTICE = "papilio: compiling kernels on their first use, which may take 20 seconds or more; later runs load them"


class _Listener(event.Listener):
    """Says once that functions of this package are compiled; numba loads compiled ones without such events."""

    is_due = True

    def on_start(self, event: event.Event) -> None:
        function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
        is_ours = str(getattr(function, "__module__", "")).startswith(f"{__name__}.")
        if self.is_due and is_ours and not os.environ.get("PAPILIO_QUIET"):
            self.is_due = False
            write_line(sys.stderr, f"{_NOTICE}\n")

    def on_end(self, event: event.Event) -> None:
        """Nothing: the notice stays."""


event.register("numba:compile", _Listener())
