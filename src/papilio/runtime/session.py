"""A session: what a long computation needs besides its mathematics."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager, nullcontext
from math import inf
from threading import get_ident
from time import monotonic, perf_counter
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from .. import typing as types
from ..typing import Array
from ..validation import as_random, as_real
from .checkpoint import Checkpoint
from .history import Callback, History, Step, history_from_arrays, history_to_arrays
from .interrupt import awaited_request, awaiting_stop, is_ctrl_c_free
from .layout import Check, anything, integer, mapping, text
from .progress import ProgressLine
from .randomness import random_as_text, restore_random
from .threads import start_aside

_SECONDS_BETWEEN_CHECKPOINTS = 30.0
_SECONDS_BETWEEN_LOOKS = 0.05  # at the stop flag, while a long call runs
_SECONDS_BETWEEN_SIGNS = 0.5  # to the callback, that work still goes on
_SHORT_WORK = 1 << 24  # multiplications of a call that is not worth a thread: it takes some 50 ms

_LARGEST_SEED = 2**31 - 1
_SAVED = mapping(  # the content of a checkpoint, except for the state of its phase
    {
        "session": mapping({"phase": text(), "random": text()}, {"seed": integer(0, _LARGEST_SEED)}),
        "history": mapping({"phase": anything, "numbers": anything}),
    },
    {"state": anything},
)

State: TypeAlias = Mapping[str, Any]  # arrays and numbers by name; may be nested
T = TypeVar("T")


class Interrupted(Exception):
    """The session was stopped: what is going on ends without a result."""


class Phase(NamedTuple):
    """A named part of a run.

    ``work`` takes the state that the previous phase returned, and returns the next one. It must also accept any
    state that it has passed to `Session.offer`, and continue from there. ``share`` is its estimated share of the
    time, in any unit. A ``closing`` phase runs even after a stop: it turns what there is into a result. ``layout``
    checks a state from a file before ``work`` sees it.
    """

    name: str
    share: float
    work: Callable[[State], State]
    closing: bool = False
    layout: Check = anything


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
        self._request = awaited_request()
        self._begin = self._clock = perf_counter()
        self._label, self._place, self._width, self._done = "", 0.0, 1.0, 0.0
        self._is_new_part = False
        self._last = ("", 0, "")  # what was told last: phase, iteration, and how it is shown
        self._told_at, self._thread = self._begin, get_ident()
        self._checkpoint = None if checkpoint is None else Checkpoint(checkpoint, identity or {})
        self._has_warned = False
        self._phase = ""
        self._kept: State = {}  # the last content of the checkpoint: the state, the history and more
        self._kept_at = monotonic()
        self.saved: State = {}  # found in the checkpoint; empty in a new run
        self._seed: int | None = None
        if self._checkpoint is not None and self._checkpoint.state is not None:
            try:
                with self._checkpoint.reading():
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

    def check(self) -> None:
        """Raise `Interrupted` once the session is stopped: for loops deep inside.

        The callback, which may want to stop, is called again with the last phase if that was a while ago.
        """
        if perf_counter() - self._told_at >= _SECONDS_BETWEEN_SIGNS and get_ident() == self._thread:
            phase, iteration, number = self._last
            self._tell(self._step(phase, iteration, 0.0), phase, number)
        if self.stopped:
            raise Interrupted

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first Ctrl-C stop this session, and the second one raise `KeyboardInterrupt`.

        Only in the main thread, and only where nobody else handles Ctrl-C. At the end, the line of progress is
        wiped out.
        """
        with awaiting_stop() if is_ctrl_c_free() else nullcontext(self._request) as self._request:
            try:
                yield
            finally:
                self._end_line()

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
        step = self._step(phase, iteration, fraction)._replace(error=error, scale=scale, share=share)
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

    def _end_line(self) -> None:
        if self._line is not None:
            self._line.end()

    # -- phases and checkpoints ------------------------------------------------------------------------

    def run(self, phases: Sequence[Phase], state: State | None = None) -> State:
        """Run the phases, in a resumed run only those that remain, and return the last state.

        The state is saved before each phase. After a stop, only closing phases run.
        """
        total = sum(phase.share for phase in phases)
        state = {} if state is None else state
        resumed = 0
        if self._phase:
            resumed, state = self._resumed(phases), self.saved
        for i, phase in enumerate(phases):
            with self.part(phase.share / total):
                if i < resumed or (self.stopped and not phase.closing):
                    continue
                if i > resumed or not self._phase:
                    self._phase = phase.name
                    self.keep(state)
                state = phase.work(state)
        return state

    def _resumed(self, phases: Sequence[Phase]) -> int:
        """The number of the phase whose state was found, after a check of the state."""
        assert self._checkpoint is not None
        with self._checkpoint.reading():
            for i, phase in enumerate(phases):
                if phase.name == self._phase:
                    phase.layout("state", self.saved)
                    return i
            raise ValueError(f"it is of the phase {self._phase!r}, which this run does not have")

    def offer(self, state: Callable[[], State]) -> None:
        """Save a newer state of the current phase, if the last one is old."""
        if monotonic() - self._kept_at >= _SECONDS_BETWEEN_CHECKPOINTS:
            self.keep(state())

    def extend(self, more: Callable[[], State]) -> None:
        """Save the last state again with additions, if it is old: for a long step that is not finished."""
        if self._checkpoint is not None and monotonic() - self._kept_at >= _SECONDS_BETWEEN_CHECKPOINTS:
            self._write({**self._kept, "state": {**self._kept.get("state", {}), **more()}})

    def keep(self, state: State) -> None:
        """Save a newer state of the current phase."""
        if self._checkpoint is not None:
            own: dict[str, Any] = {"phase": self._phase, "random": random_as_text(self.random)}
            if self._seed is not None:
                own["seed"] = self._seed
            self._kept = {"session": own, "history": history_to_arrays(self.history), "state": state}
            self._write(self._kept)

    def require(self, **facts: Any) -> None:
        """Add to the identity of the run; refuses a checkpoint of another run."""
        if self._checkpoint is not None:
            self._checkpoint.require(**facts)

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether the run has a checkpoint file."""
        return self._checkpoint is not None

    def finished(self, state: State) -> State:
        """The work of the last phase, `FINISHED`: the result is kept, and the state before it is not needed."""
        if self._checkpoint is not None:
            self._checkpoint.forget_before()
        return state

    def close(self) -> None:
        """End the line of progress, and let other runs have the checkpoint, which stays."""
        self._end_line()
        if self._checkpoint is not None:
            self._checkpoint.release()

    def seed(self) -> int:
        """A random seed, drawn once per run; a resumed run has the same one."""
        if self._seed is None and self._checkpoint is not None and self._checkpoint.state is not None:
            with self._checkpoint.reading():
                raise ValueError("its seed is missing")
        if self._seed is None:
            self._seed = int(self.random.randint(_LARGEST_SEED))
        return self._seed

    def _write(self, kept: State) -> None:
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

    def _restore(self, saved: Mapping[str, Any]) -> None:
        _SAVED("checkpoint", saved)
        own = saved["session"]
        self._phase, self.saved, self._kept = str(own["phase"]), saved.get("state", {}), saved
        self._seed = int(own["seed"]) if "seed" in own else None
        restore_random(self.random, str(own["random"]))
        self.history = history_from_arrays(saved["history"])
        if self.history:
            self._clock = perf_counter() - self.history[-1].seconds
