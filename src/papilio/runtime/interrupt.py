"""Requests to stop that come as signals: Ctrl-C, and SIGTERM on the command line."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any


class StopRequest:
    """Whether a signal has asked to stop. Sessions that begin while a request is awaited look at it."""

    def __init__(self) -> None:
        self.is_made = False


_awaited: ContextVar[StopRequest | None] = ContextVar("awaited", default=None)
_last_signal = 0


def awaited_request() -> StopRequest | None:
    """The request that is awaited around the calling code, in its thread."""
    return _awaited.get()


def last_signal() -> int:
    """The number of the last signal that a handler of this module got; 0 if there was none."""
    return _last_signal


def is_ctrl_c_free() -> bool:
    """Whether Ctrl-C reaches this thread, and does what Python has it do by default."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def awaiting_stop(
    signals: Sequence[signal.Signals] = (signal.SIGINT,), heed: Callable[[], None] = lambda: None
) -> Iterator[StopRequest]:
    """Turn the first of ``signals`` into a request, with a call of ``heed``; later ones do what they did before.

    Where they did nothing, they raise `KeyboardInterrupt`. Only the main thread of a process gets signals: in any
    other, the request is never made.
    """
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if not request.is_made:
            global _last_signal
            _last_signal, request.is_made = number, True
            heed()
            return
        previous = before[number]
        if callable(previous):
            previous(number, frame)
        else:
            raise_interrupt(number, frame)

    before: dict[int, Any] = {}
    token = _awaited.set(request)
    try:
        if threading.current_thread() is threading.main_thread():
            for number in signals:
                before[int(number)] = signal.getsignal(number)
                signal.signal(number, handle)
        yield request
    finally:
        for caught, handler in before.items():
            # None is a handler that Python did not set, and cannot set again.
            signal.signal(caught, signal.SIG_DFL if handler is None else handler)
        _awaited.reset(token)


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """A handler that makes of any signal what Ctrl-C is by default."""
    global _last_signal
    _last_signal = number
    raise KeyboardInterrupt
