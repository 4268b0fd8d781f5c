"""A session: what a long computation needs besides its mathematics."""

import signal
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import inf
from shutil import get_terminal_size
from time import monotonic, perf_counter
from types import FrameType
from typing import Any, Self, TextIO, TypeVar

import numpy as np

from .. import typing as types
from ..typing import Array
from ..validation import as_random, as_real
from .checkpoint import FINISHED, Checkpoint, stored
from .history import Callback, History, Step
from .threads import start_aside

_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_SECONDS_BETWEEN_LOOKS = 0.05  # Between two checks of the stop flag during a long call.
_SECONDS_BETWEEN_SIGNS = 0.5  # Between two calls of the callback during a long call.
_SECONDS_BETWEEN_UPDATES = 0.2
_SECONDS_BETWEEN_LINES = 30.0
_SHORT_WORK = 1 << 24  # multiplications of a call that is not worth a thread: it takes some 50 ms

_LARGEST_SEED = 2**31 - 1

T = TypeVar("T")


# -- requests to stop, by Ctrl-C, and on the command line by SIGTERM --------------------------------------


class StopRequest:
    """Whether a signal has asked to stop. Sessions that begin while a request is awaited look at it."""

    def __init__(self) -> None:
        self.is_made = False


class _SameRequest(StopRequest):
    """The request to stop another session."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    @property
    def is_made(self) -> bool:  # type: ignore[override]
        return self._session.is_asked_to_stop()


# The request that is awaited around the calling code, in its thread.
_awaited: ContextVar[StopRequest | None] = ContextVar("awaited", default=None)
_last_signal = 0


def last_signal() -> int:
    """The number of the last signal that a handler of this module got; 0 if there was none."""
    return _last_signal


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
        (previous if callable(previous) else raise_interrupt)(number, frame)

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
    """Handle a signal like Ctrl-C: raise KeyboardInterrupt."""
    global _last_signal
    _last_signal = number
    raise KeyboardInterrupt


# -- a line of progress on the standard error --------------------------------------------------------------


class ProgressLine:
    """How much is done, what is being done, and for how long: ``factorize  43 %  butterfly, level 3 of 9: 12 s``.

    On a terminal and in a notebook, one line that is overwritten, and erased at the end; elsewhere,
    as in a log file, a line now and then.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._stream = sys.stderr
        self._in_place = is_rewritable(self._stream)
        self._pause = _SECONDS_BETWEEN_UPDATES if self._in_place else _SECONDS_BETWEEN_LINES
        # The first line of a log comes late: short work leaves none.
        self._last = monotonic() - (self._pause if self._in_place else 0.0)
        self._length = 0

    def show(self, done: float, note: str, seconds: float) -> None:
        """Show that ``done`` of the work is finished, from 0 to 1, unless the line was just written."""
        now = monotonic()
        if now - self._last < self._pause:
            return
        self._last = now
        line = f"{self._title} {100 * done:3.0f} %  {note}: {seconds:.0f} s"
        if self._in_place:
            line = line[: get_terminal_size().columns - 1]
            write_line(self._stream, "\r" + line.ljust(self._length))
            self._length = len(line)
        else:
            write_line(self._stream, line + "\n")

    def end(self) -> None:
        """Wipe the line out."""
        if self._length:
            write_line(self._stream, "\r" + " " * self._length + "\r")
            self._length = 0


def is_rewritable(stream: TextIO | None) -> bool:
    """Whether a carriage return lets a line be written again: on terminals and in notebooks."""
    if stream is None or type(stream).__module__.startswith("ipykernel"):
        return stream is not None
    with suppress(ValueError):  # closed
        return stream.isatty()
    return False


def write_line(stream: TextIO | None, text: str) -> None:
    """Write to a stream, unless it is closed or has no reader; a failed write does not end the work."""
    with suppress(OSError, ValueError):
        if stream is not None:
            stream.write(text)
            stream.flush()


# -- a run ----------------------------------------------------------------------------------------------


class Interrupted(Exception):
    """The session was stopped: what is going on ends without a result."""


class Stage(ABC):
    """A part of a run: an initial state, steps from state to state until it is done, and a result.

    ``init`` gets the result of the stage before. A state is made of what `checkpoint.stored` allows; a run can be
    resumed from any of them. ``step`` reports its iterations to the session. ``share`` is the estimated share of
    the time, in any unit. A ``closing`` stage runs even after a stop: it turns what there is into a result. States
    of stages that have long steps are saved before each of them, others from time to time.
    """

    name: str
    share = 1.0
    closing = False
    has_long_steps = False

    @abstractmethod
    def init(self, before: Any) -> Any:
        """The first state."""

    @abstractmethod
    def step(self, state: Any) -> Any:
        """The next state, which may be the same object; a step that raises `Interrupted` counts for nothing."""

    @abstractmethod
    def done(self, state: Any) -> bool:
        """Whether no step is left to do."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """What the next stage gets; ``state`` need not be done if the session was stopped."""


stored(Step)


@stored
@dataclass
class Snapshot:
    """What a checkpoint holds of a run; ``parts`` is what a long step that was not finished has done."""

    stage: str
    random: dict[str, Any]  # the state of the generator
    seed: int | None
    history: list[Step]
    state: Any
    parts: Any = None


class Session:
    """The callback, clock, history, progress, stop flag, random state and checkpoint of one run.

    A true result of ``callback`` stops the run, and so does the end of ``time_budget``, in seconds. If the file
    ``checkpoint`` exists, the run resumes from it, unless its ``identity`` is that of another run. A session with
    a checkpoint is a context: until its end, no other session can have the file. With ``progress``, the standard
    error shows it on a line that begins with ``title``.
    """

    def __init__(
        self,
        callback: Callback | None = None,
        *,
        random_state: types.RandomState = 0,
        time_budget: float | None = None,
        checkpoint: types.Path | None = None,
        identity: Mapping[str, Any] | None = None,
        progress: bool = False,
        title: str = "papilio",
    ) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be callable, got {callback!r}")
        self._budget = np.inf if time_budget is None else as_real("time_budget", time_budget, 0.0)
        self.random = as_random(random_state)
        self.history = History()
        self._callback = callback
        self._line = ProgressLine(title) if progress else None
        self._stopped = False
        self._request = _awaited.get()
        self._begin = self._clock = perf_counter()
        self._label, self._place, self._width, self._done = "", 0.0, 1.0, 0.0
        self._is_new_part = False
        self._last = ("", 0, "")  # The last report: phase, iteration, and how it is shown.
        self._told_at, self._thread = self._begin, threading.get_ident()
        self._checkpoint = None if checkpoint is None else Checkpoint(checkpoint, identity or {})
        self._has_warned = False
        self._stage = ""
        self._saved: Snapshot | None = None  # found in the checkpoint
        self._kept: Snapshot | None = None  # the last one that was written
        self._kept_at = monotonic()
        self._parts: Any = None
        self._seed: int | None = None
        if self._checkpoint is not None and self._checkpoint.state is not None:
            try:
                self._restore(self._checkpoint.state)
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- stopping and reporting ------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether a callback or a signal has stopped the run, or its time is up."""
        if not self._stopped:
            is_asked = self._request is not None and self._request.is_made
            self._stopped = is_asked or perf_counter() - self._begin > self._budget
        return self._stopped

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit on the time."""
        return self._budget < np.inf

    def check(self) -> None:
        """Raise `Interrupted` once the session is stopped: for loops deep inside.

        The callback, which may want to stop, is called again with the last phase if that was a while ago.
        """
        if self.is_asked_to_stop():
            raise Interrupted

    def is_asked_to_stop(self) -> bool:
        """Whether the session is stopped, after a call of the callback as in `check`."""
        if perf_counter() - self._told_at >= _SECONDS_BETWEEN_SIGNS and threading.get_ident() == self._thread:
            phase, iteration, number = self._last
            self._tell(self._step(phase, iteration, 0.0), phase, number)
        return self.stopped

    def aside(self) -> "Session":
        """A session whose iterations are not reported; it stops when this one does."""
        quiet = Session(None)
        quiet._request = _SameRequest(self)
        return quiet

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C stop this session, and the second one raise `KeyboardInterrupt`.

        Only in the main thread, and only if Ctrl-C has its default handler. At the end, the line of progress is
        wiped out.
        """
        is_main = threading.current_thread() is threading.main_thread()
        is_default = is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with awaiting_stop() if is_default else nullcontext(self._request) as self._request:
            try:
                yield
            finally:
                if self._line is not None:
                    self._line.end()

    def wait(self, call: Callable[[], T], work: float = inf, phase: str = "") -> T:
        """What ``call`` returns or raises; `Interrupted` as soon as the session is stopped.

        For one long call that nothing can interrupt, such as LAPACK's of a large matrix: it runs on a thread of
        its own, which ends by itself when it is abandoned. ``work`` is about how many multiplications it takes
        (the product of the three sizes, for a decomposition); if they are few, no thread is started. Meanwhile,
        the callback is called now and then, with iteration 0 of ``phase`` if that is given.
        """
        last, self._last = self._last, (phase, 0, "") if phase else self._last
        self.check()
        running = start_aside(call) if work > _SHORT_WORK else None
        if running is None:
            return call()
        while not futures.wait([running], _SECONDS_BETWEEN_LOOKS).done:
            self.check()
        self._last = last
        return running.result()

    def report(
        self,
        phase: str,
        error: float,
        scale: float = 1.0,
        factors: Sequence[Array] = (),
        fraction: float = 0.0,
        share: float = 1.0,
    ) -> None:
        """Add an iteration to the history and call the callback; ``fraction`` of the current `part` is done.

        The error is that of a ``share`` of all signals.
        """
        last = self.history[-1] if self.history and not self._is_new_part else None
        self._is_new_part = False
        iteration = last.iteration + 1 if last and last.phase == phase else 1
        seconds = perf_counter() - self._clock
        step = Step(phase, iteration, error, scale, seconds, (), self._progress(fraction), share)
        self.history.append(step)
        if self._callback is not None:  # the factors as views that are read-only
            step = step._replace(factors=tuple(np.broadcast_to(f, f.shape) for f in factors))
        self._tell(step, phase, f" {iteration}")

    def tick(self, phase: str, done: int, total: int) -> bool:
        """Report progress within a long step to the callback, not to the history; returns whether to stop."""
        self._tell(self._step(phase, done, done / total), phase, f" {done} of {total}")
        return self.stopped

    @contextmanager
    def part(self, share: float, label: str = "") -> Iterator[None]:
        """Work that is ``share`` of the enclosing part; ``label`` is prepended to the names of its phases."""
        place, width, before = self._place, self._width, self._label
        self._width, self._label, self._is_new_part = share * width, before + label, True
        self._last = ("", 0, "")
        try:
            yield
        finally:
            self._place, self._width, self._label = place + share * width, width, before
            self._last = ("", 0, "")

    def _progress(self, fraction: float) -> float:
        done = self._place + self._width * min(fraction, 1.0)
        done = max(done, (perf_counter() - self._begin) / self._budget if self._budget > 0 else 1.0)
        self._done = max(self._done, min(done, 1.0))
        return self._done

    def _step(self, phase: str, iteration: int, fraction: float) -> Step:
        """With the last error that is known."""
        error, share = (self.history[-1].error, self.history[-1].share) if self.history else (np.nan, 1.0)
        seconds = perf_counter() - self._clock
        return Step(phase, iteration, error, 1.0, seconds, (), self._progress(fraction), share)

    def _tell(self, step: Step, phase: str, number: str) -> None:
        self._last, self._told_at = (phase, step.iteration, number), perf_counter()
        if self._line is not None:
            note = "stopping" if self.stopped else (self._label + phase).rstrip(" :,") + number
            self._line.show(step.done, note, step.seconds)
        if self._callback is None or self.stopped:
            return
        now = perf_counter()
        phase = self._label + step.phase if step.phase else self._label.rstrip(" :,")
        self._stopped = bool(self._callback(step._replace(phase=phase))) or self._stopped
        self._told_at = perf_counter()
        self._clock += self._told_at - now

    # -- stages and checkpoints ------------------------------------------------------------------------

    def run(self, stages: Sequence["Stage"], before: Any = None) -> Any:
        """Run the stages, in a resumed run only those that remain, and return the result of the last one.

        The state is saved as each stage begins, and the result at the end. After a stop, only closing stages run.
        """
        saved, total = self._saved, sum(stage.share for stage in stages)
        names = [*(stage.name for stage in stages), FINISHED]
        if saved is not None and saved.stage not in names:
            raise self._refusal(f"is of the stage {saved.stage!r}, which this run does not have")
        first = 0 if saved is None else names.index(saved.stage)
        for i, stage in enumerate(stages):
            with self.part(stage.share / total):
                if i < first or (self.stopped and not stage.closing):
                    continue
                self._stage = stage.name
                if saved is not None and i == first:
                    before = self.iterate(stage, saved.state)
                else:
                    self._kept_at = -inf  # the first state is saved
                    before = self.iterate(stage, stage.init(before))
        if saved is not None and saved.stage == FINISHED:
            return saved.state
        self._stage = FINISHED
        self.keep(before)
        return before

    def iterate(self, stage: "Stage", state: Any) -> Any:
        """Steps of a stage until it is done or the session is stopped; its result."""
        while not stage.done(state) and (stage.closing or not self.stopped):
            if stage.has_long_steps or monotonic() - self._kept_at >= _SECONDS_BETWEEN_CHECKPOINTS:
                self.keep(state)
            try:
                state = stage.step(state)
            except Interrupted:
                break
        return stage.result(state)

    def keep(self, state: Any) -> None:
        """Save a newer state of the current stage."""
        if self._checkpoint is not None:
            random: Any = self.random.get_state(legacy=False)
            self._kept = Snapshot(self._stage, random, self._seed, list(self.history), state)
            self._write(self._kept)

    def keep_parts(self, parts: Callable[[], Any]) -> None:
        """Save the last state again, if it is old, with what a long step has done: `take_parts` returns it."""
        if self._kept is not None and monotonic() - self._kept_at >= _SECONDS_BETWEEN_CHECKPOINTS:
            self._write(replace(self._kept, parts=parts()))

    def take_parts(self) -> Any:
        """What the step that was interrupted had done; None if there is nothing, and from the second call on."""
        parts, self._parts = self._parts, None
        return parts

    def require(self, **facts: Any) -> None:
        """Add to the identity of the run; refuses a checkpoint of another run."""
        if self._checkpoint is not None:
            self._checkpoint.require(**facts)

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the run has a checkpoint file."""
        return self._checkpoint is not None

    def close(self) -> None:
        """End the line of progress, and let other runs have the checkpoint, which stays."""
        if self._line is not None:
            self._line.end()
        if self._checkpoint is not None:
            self._checkpoint.release()

    def seed(self) -> int:
        """A random seed, drawn once per run; a resumed run has the same one."""
        if self._seed is None:
            if self._saved is not None:
                raise self._refusal("belongs to another run: it has no seed")
            self._seed = int(self.random.randint(_LARGEST_SEED))
        return self._seed

    def _write(self, kept: "Snapshot") -> None:
        # After a stop, the state from before it is the one to resume from.
        if self._checkpoint is None or self.stopped:
            return
        try:
            self._checkpoint.write(kept)
        except OSError as error:  # such as a full disk, which may have room again later
            if not self._has_warned:
                self._has_warned = True
                warnings.warn(
                    f"checkpoint {error.filename!r} could not be written: {error.strerror}; the run goes on, and "
                    "tries again later",
                    stacklevel=5,
                )
        self._kept_at = monotonic()

    def _refusal(self, reason: str) -> ValueError:
        assert self._checkpoint is not None
        return self._checkpoint.refusal(reason)

    def _restore(self, saved: Any) -> None:
        if not isinstance(saved, Snapshot):
            raise self._refusal("is damaged, or belongs to another run")
        self._saved = self._kept = saved
        self._seed, self._parts = saved.seed, saved.parts
        try:
            self.random.set_state(saved.random)
        except ValueError as error:
            raise self._refusal("belongs to another run: random_state is of another kind") from error
        self.history = History(step._replace(factors=()) for step in saved.history)
        if self.history:
            self._clock = perf_counter() - self.history[-1].seconds
