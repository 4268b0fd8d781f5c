"""Passes over samples: a task for each part, and its results added up in the order of the parts.

A pass runs on the current Dask client, if there is one and its workers can read the samples, else on threads of
this process. Kernels have one thread within a task: it is the tasks that run side by side. Sums are taken in a
fixed order: over neighbouring parts first, where these were worked on, then over at most sixteen groups here.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from math import ceil
from typing import Any, Protocol, TypeVar

from ..runtime.threads import get_num_threads, one_thread, split_work
from ..typing import Array
from .rows import DaskSamples, Part, Samples

_GROUPS = 16  # sums that come back from the workers, however many parts and workers there are

Result = TypeVar("Result")
Work = Callable[[Iterator[tuple[int, Array]], Any], Result]
Merge = Callable[[Sequence[Result]], Result]


class Tick(Protocol):
    """Told how many parts of how many are done; a true result stops the pass."""

    def __call__(self, done: int, total: int) -> Any: ...


class PassStopped(Exception):
    """A pass was stopped by a callback."""


def passed_over(
    samples: Samples,
    task: Work[Result],
    payload: Any,
    merge: Merge[Result],
    *,
    tick: Tick | None = None,
    kept: MutableMapping[int, Result] | None = None,
) -> Result:
    """merge([task(part, payload) for all parts]), with a fixed order of merging.

    Parameters
    ----------
    samples : Samples
    task : callable
        Takes blocks, (number of the first row, rows), of one part, one after the other, and the payload. A
        function of a module, so that other processes find it.
    payload : object
        The same for all parts, such as the dictionary.
    merge : callable
        One result from a list of several.
    tick : callable, optional
        Called now and then with the numbers of parts that are done, and of all.
    kept : dict, optional
        Merged results of groups that are known already; it is filled as more are.
    """
    parts = samples.parts()
    size = ceil(len(parts) / _GROUPS)
    groups = [parts[start : start + size] for start in range(0, len(parts), size)]
    kept = {} if kept is None else kept
    counted = _PartCount(tick, len(parts), sum(len(groups[i]) for i in kept))
    missing = {i: group for i, group in enumerate(groups) if i not in kept}
    client = current_client() if samples.is_shared else None
    if client is not None:
        _on_client(client, samples, task, payload, merge, missing, counted, kept)
    else:
        at_once = ceil(8 * get_num_threads() / size)  # groups, so that threads seldom wait for each other
        for start in range(0, len(missing), at_once):
            some = list(missing)[start : start + at_once]
            results = iter(_on_threads(samples, task, payload, [part for i in some for part in missing[i]]))
            for i in some:
                kept[i] = _merged(merge, [next(results) for _ in missing[i]])
            counted.count(sum(len(missing[i]) for i in some))
    return _merged(merge, [kept[i] for i in range(len(groups))])


def current_client() -> Any:
    """Dask's current client, or None; without Dask's scheduler in use, it is not loaded.

    Within a task of a cluster it is None, too: waiting there for other tasks could wait for itself.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    with suppress(ValueError):
        distributed.get_worker()
        return None
    with suppress(ValueError):
        return distributed.Client.current()
    return None


def _merged(merge: Merge[Result], results: Sequence[Result]) -> Result:
    return merge(results) if len(results) > 1 else results[0]


class _PartCount:
    """Counts parts, and stops the pass when it is told to."""

    def __init__(self, tick: Tick | None, total: int, done: int) -> None:
        self._tick = tick
        self._total = total
        self._done = done

    def count(self, more: int = 1) -> None:
        self._done += more
        if self._tick is not None and self._tick(self._done, self._total):
            raise PassStopped


def work_on(task: Work[Result], part: Part, payload: Any, *chunks: Any) -> Result:
    """A task for one part, wherever it runs."""
    with one_thread():
        return task(part.blocks(chunks, reuse=True), payload)


def _on_threads(samples: Samples, task: Work[Result], payload: Any, parts: Sequence[Part]) -> list[Result]:
    """The results of some parts, on threads of this process, or on Dask's where they are its chunks."""
    if isinstance(samples, DaskSamples):
        import dask

        delayed = dask.delayed(work_on, pure=False)
        shared = dask.delayed(payload, traverse=False)
        return list(dask.compute(*(delayed(task, part, shared, *samples.chunks_of(part)) for part in parts)))
    found: list[Any] = [None] * len(parts)

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            found[i] = work_on(task, parts[i], payload)

    split_work(run, len(parts), 1, shares=len(parts))
    return found


def _on_client(
    client: Any,
    samples: Samples,
    task: Work[Result],
    payload: Any,
    merge: Merge[Result],
    groups: Mapping[int, Sequence[Part]],
    counted: _PartCount,
    kept: MutableMapping[int, Result],
) -> None:
    """The merged results of groups, on the workers of a cluster; only these come back.

    Neighbouring parts are offered to the same worker, so that most results are merged where they are. The payload
    is the result of a task: should all workers that hold it die, Dask makes it again.
    """
    from distributed import as_completed

    parts = [part for group in groups.values() for part in group]
    # With few parts, it is there sooner if each brings its own.
    shared = payload if len(parts) <= _GROUPS else client.submit(_same, payload, pure=False)
    leaves = _submitted(client, samples, task, parts, shared)
    sums: dict[Any, int] = {}
    first = 0
    for i, group in groups.items():
        own = leaves[first : first + len(group)]
        sums[client.submit(merge, own, pure=False) if len(own) > 1 else own[0]] = i
        first += len(group)
    watched, keys = as_completed({*leaves, *sums}), {leaf.key for leaf in leaves}
    leaves = own = []  # what is merged may be forgotten
    for future in watched:
        result: Any = future.result() if future in sums or future.status == "error" else None
        if future in sums:
            kept[sums.pop(future)] = result
        counted.count(future.key in keys)


def _submitted(client: Any, samples: Samples, task: Any, parts: Sequence[Part], shared: Any) -> list[Any]:
    """The futures of parts. Those of files are offered to workers; chunks of Dask may be on some already."""
    if isinstance(samples, DaskSamples):
        import dask

        delayed = dask.delayed(work_on, pure=False)
        return client.compute([delayed(task, part, shared, *samples.chunks_of(part)) for part in parts])
    slots = [address for address, cores in sorted(client.ncores().items()) for _ in range(cores)]
    where = [[slots[i * len(slots) // len(parts)]] if slots else None for i in range(len(parts))]
    return [
        client.submit(work_on, task, part, shared, pure=False, workers=workers, allow_other_workers=bool(workers))
        for part, workers in zip(parts, where, strict=True)
    ]


def _same(value: Any) -> Any:
    return value
