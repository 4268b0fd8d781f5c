"""Numba functions on plain arrays. Compiling them takes long enough to say so."""

from numba.core import event

from ..runtime.notice import compilation


class _Listener(event.Listener):
    """Tells of compilations of this package's functions; numba loads compiled ones without such events."""

    def on_start(self, event: event.Event) -> None:
        if _is_ours(event):
            compilation.begin()

    def on_end(self, event: event.Event) -> None:
        if _is_ours(event):
            compilation.end()


def _is_ours(event: event.Event) -> bool:
    function = getattr((event.data or {}).get("dispatcher"), "py_func", None)
    return str(getattr(function, "__module__", "")).startswith(f"{__name__}.")


event.register("numba:compile", _Listener())
