"""Passes over samples: one task per part, with the results added in the order of the parts.

A pass runs on the current Dask client, if there is one and its workers can read the samples, else on threads of
this process. Within a task kernels have one thread; the tasks run in parallel. Sums are taken in a fixed order:
first over neighbouring parts, where these were processed, then over at most sixteen groups in this process.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from math import ceil
from typing import Any, TypeVar

from ..runtime.session import Interrupted
from ..runtime.threads import get_num_threads, one_thread, split_work
from ..typing import Array
from .dask import completed, current_client, naming_losses, workers_of
from .rows import DaskSamples, Part, Samples

_GROUPS = 16  # sums that the workers return at most, however many parts and workers there are

Result = TypeVar("Result")
Work = Callable[[Iterator[tuple[int, Array]], Any], Result]
Merge = Callable[[Sequence[Result]], Result]

# Called with the numbers of parts done and of all parts; a true result stops the pass by `Interrupted`.
Tick = Callable[[int, int], Any]


def map_reduce(
    samples: Samples,
    task: Work[Result],
    payload: Any,
    merge: Merge[Result],
    *,
    tick: Tick | None = None,
    kept: MutableMapping[int, Result] | None = None,
) -> Result:
    """merge([task(part, payload) for each part]), merged in a fixed order.

    ``task`` takes an iterator over the blocks of a part, (index of the first row, rows), and the payload, which is
    the same for all parts; other processes must be able to import it. ``tick`` is called from time to time.
    ``kept`` holds the merged results of groups: the pass fills it, and skips the groups that it has already.
    """
    parts, groups = samples.parts(), groups_of(samples)
    kept = {} if kept is None else kept
    done = sum(len(groups[i]) for i in kept)

    def count(more: int) -> None:
        nonlocal done
        done += more
        if tick is not None and tick(done, len(parts)):
            raise Interrupted

    missing = {i: group for i, group in enumerate(groups) if i not in kept}
    client = current_client() if samples.is_shared else None
    if client is not None:
        with naming_losses(client):
            _on_client(client, samples, task, payload, merge, missing, count, kept)
    else:
        size = len(groups[0])
        at_once = ceil(8 * get_num_threads() / size)  # groups; enough that threads seldom wait for each other
        for start in range(0, len(missing), at_once):
            some = list(missing)[start : start + at_once]
            results = iter(_on_threads(samples, task, payload, [part for i in some for part in missing[i]]))
            for i in some:
                kept[i] = _merged(merge, [next(results) for _ in missing[i]])
            count(sum(len(missing[i]) for i in some))
    return _merged(merge, [kept[i] for i in range(len(groups))])


def groups_of(samples: Samples) -> list[list[Part]]:
    """The parts of samples in groups of neighbours, whose results are merged first."""
    parts = samples.parts()
    size = ceil(len(parts) / _GROUPS)
    return [parts[start : start + size] for start in range(0, len(parts), size)]


def _merged(merge: Merge[Result], results: Sequence[Result]) -> Result:
    return merge(results) if len(results) > 1 else results[0]


def work_on(task: Work[Result], part: Part, payload: Any, *chunks: Any) -> Result:
    """Run a task on one part."""
    with one_thread():
        return task(part.blocks(chunks), payload)


def _on_threads(samples: Samples, task: Work[Result], payload: Any, parts: Sequence[Part]) -> list[Result]:
    """The results of some parts, on threads of this process; for Dask arrays on those of Dask."""
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
    count: Callable[[int], None],
    kept: MutableMapping[int, Result],
) -> None:
    """Merge the results of each group on the workers of a cluster, and store them in ``kept``.

    Neighbouring parts are offered to the same worker, so that most results are merged where they are. The payload
    is the result of a task, so that Dask restores it if all workers that hold it die.
    """
    parts = [part for group in groups.values() for part in group]
    # With few parts, it is faster to send it with each of them.
    shared = payload if len(parts) <= _GROUPS else client.submit(_same, payload, pure=False)
    leaves = _submitted(client, samples, task, parts, shared)
    sums: dict[Any, int] = {}
    first = 0
    for i, group in groups.items():
        own = leaves[first : first + len(group)]
        sums[client.submit(merge, own, pure=False) if len(own) > 1 else own[0]] = i
        first += len(group)
    watched, keys = {*leaves, *sums}, {leaf.key for leaf in leaves}
    leaves = own = []  # release the results that are merged
    waiting = completed(client, watched, lambda: count(0))
    del watched
    for future in waiting:
        if future in sums:
            kept[sums.pop(future)] = future.result()
        elif future.status in ("error", "cancelled"):
            future.result()  # raises it
        count(future.key in keys)


def _submitted(client: Any, samples: Samples, task: Any, parts: Sequence[Part], shared: Any) -> list[Any]:
    """The futures of parts. Those of files are spread over the workers; Dask knows where its chunks are."""
    if isinstance(samples, DaskSamples):
        import dask

        delayed = dask.delayed(work_on, pure=False)
        return client.compute([delayed(task, part, shared, *samples.chunks_of(part)) for part in parts])
    slots = [address for address, cores in sorted(workers_of(client).items()) for _ in range(cores)]
    where = [[slots[i * len(slots) // len(parts)]] if slots else None for i in range(len(parts))]
    return [
        client.submit(work_on, task, part, shared, pure=False, workers=workers, allow_other_workers=bool(workers))
        for part, workers in zip(parts, where, strict=True)
    ]


def _same(value: Any) -> Any:
    return value
