"""Dask: work on its clusters, with timeouts for lost workers, and checks of chunks."""

import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..validation import as_array

_SECONDS_BETWEEN_LOOKS = 5.0  # Between two checks of the workers while no result arrives.
_SECONDS_WITHOUT_WORKERS = 300.0  # Timeout without workers, unless PAPILIO_WORKER_TIMEOUT sets another.


def current_client() -> Any:
    """Dask's current client, or None; never imports Dask.

    None within a task of a cluster, too: a task that waits for other tasks could block them.
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


def computed(values: Sequence[Any]) -> Sequence[Any]:
    """Dask's delayed values, computed on the current client or, without one, on Dask's threads."""
    client = current_client()
    if client is None:
        import dask

        return dask.compute(*values)
    with naming_losses(client):
        futures = client.compute(list(values))
        for _ in completed(client, futures):
            pass
        return client.gather(futures)


@contextmanager
def naming_losses(client: Any) -> Iterator[None]:
    """Name the scheduler that was lost; Dask's own errors name only keys and cancelled futures."""
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, ClosedClientError, CommClosedError) as error:
        is_connected = client.status == "running"
        what = f"the work was lost there ({error})" if is_connected else "the connection to its scheduler was lost"
        raise ConnectionError(
            f"X must be read by the Dask cluster at {_address(client)}, but {what}: connect a new Client and call "
            "again; with a checkpoint, learning goes on where it was"
        ) from error


def completed(client: Any, futures: Collection[Any], idle: Callable[[], None] = lambda: None) -> Iterator[Any]:
    """Futures in the order in which they are completed; `TimeoutError` if there are no workers for too long.

    ``idle`` is called every few seconds while none is completed.
    """
    from distributed import as_completed

    watched = as_completed(futures, loop=client.loop)
    del futures  # Release each future after use.
    timeout = _timeout()
    begin = looked = monotonic()  # Start of waiting without results and workers.
    while not watched.is_empty():
        if watched.has_ready():
            begin = looked = monotonic()
            yield next(watched)
            continue
        with watched.thread_condition:
            watched.thread_condition.wait(0.1)
        if monotonic() - looked >= _SECONDS_BETWEEN_LOOKS:
            idle()
            looked = monotonic()
            if workers_of(client):
                begin = looked
            elif looked - begin >= timeout:
                raise TimeoutError(
                    f"X must be read by workers, but the Dask cluster at {_address(client)} has no workers, for "
                    f"{timeout:g} seconds: start some, or set PAPILIO_WORKER_TIMEOUT to more seconds"
                )


def workers_of(client: Any) -> dict[str, int]:
    """The workers' numbers of threads, by their addresses."""
    from distributed.comm import CommClosedError

    try:
        return dict(client.ncores())
    except OSError as error:
        raise CommClosedError(f"the scheduler does not answer: {error}") from error


def _timeout() -> float:
    """Seconds to wait for a worker: PAPILIO_WORKER_TIMEOUT if that is a positive number."""
    with suppress(ValueError):
        wanted = float(os.environ.get("PAPILIO_WORKER_TIMEOUT", ""))
        if wanted > 0:
            return wanted
    return _SECONDS_WITHOUT_WORKERS


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", None) or "an unknown address")


def with_checked_chunks(X: Any, accept_sparse: bool = False) -> Any:
    """The same Dask array, with chunks that are checked where they are computed, before any use.

    Sparse chunks stay sparse if ``accept_sparse``.
    """
    return X.map_blocks(_checked, X.dtype, accept_sparse, dtype=X.dtype, meta=X._meta)


def _checked(chunk: Any, dtype: Any, accept_sparse: bool, block_info: Any = None) -> Any:
    """A chunk in the dtype and shape that its array declares; an error that names it if it has others."""
    declared = block_info[0]
    row, column = declared["chunk-location"]
    place = f"chunk {row}" if declared["num-chunks"][1] == 1 else f"chunk ({row}, {column})"
    # Rows may be unknown before the chunk is computed: their number is then NaN.
    shape = tuple(stop - start for start, stop in declared["array-location"])
    is_sparse = sp.issparse(chunk)
    if (is_sparse and not accept_sparse) or (hasattr(chunk, "todense") and not is_sparse):
        raise TypeError(f"X must have dense chunks (NumPy arrays), got {place} of type {type(chunk).__name__}")
    array = chunk if is_sparse else as_array(f"{place} of X", chunk)
    if array.ndim != 2 or any(
        got != want and not np.isnan(want) for got, want in zip(array.shape, shape, strict=True)
    ):
        wanted = " × ".join("any number" if np.isnan(side) else str(side) for side in shape)
        raise ValueError(f"X must have chunks of the shapes it declares, {wanted} for {place}, got {array.shape}")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"X must have chunks of the dtype it declares, {dtype}, got {place} of {array.dtype}")
    with np.errstate(over="ignore"):  # infinity is found later
        return array.astype(dtype, copy=False)
