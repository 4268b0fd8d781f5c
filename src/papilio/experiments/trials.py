"""Many independent trials on several processes; the rows of each are saved as soon as it is finished.

A stopped run is resumed: the table on the disk tells which trials are done. In the end the rows are put into the
order of the trials, so that the table is the same, byte for byte, however often the run was stopped and on however
many processes it ran.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..runtime.files import naming
from ..runtime.threads import one_thread
from .tables import Row, lines_of, read_table, write_table

Trial = TypeVar("Trial")
Rows = list[dict[str, Any]]
OnProgress = Callable[[int, int], None]  # called with the number of parts that are done, and of all


class Stopped(Exception):
    """The user stopped a run; its message says what is kept."""


@dataclass(frozen=True)
class Ledger(Generic[Trial]):
    """A table with a block of rows for each trial."""

    path: Path
    columns: Sequence[str]
    keys: Sequence[str]  # the first of the columns, which identify a row
    expected: Callable[[Trial], list[tuple[str, ...]]]  # the keys of the rows of a trial, in order

    def blocks(self, trials: Sequence[Trial]) -> dict[Trial, list[Row]]:
        """The rows of each trial that is complete in the table, in order; all other rows are left out."""
        if not self.path.exists():
            return {}
        found = {tuple(row[key] for key in self.keys): row for row in self._whole_rows()}
        blocks = {}
        for trial in trials:
            names = self.expected(trial)
            if all(name in found for name in names):
                blocks[trial] = [found[name] for name in names]
        return blocks

    def rewrite(self, blocks: Mapping[Trial, list[Row]]) -> None:
        """Replace the table by these blocks."""
        write_table(self.path, self.columns, [row for rows in blocks.values() for row in rows])

    def append(self, rows: Rows) -> None:
        """Add a block and wait until it is on the disk; an error leaves the table as it was."""
        left = lines_of(self.columns, rows).encode()
        # Without a buffer: what a full disk does not take must not be written again when the file is closed.
        with naming(self.path), open(self.path, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while left:
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise

    def _whole_rows(self) -> Iterator[Row]:
        whole = self.path.read_bytes().endswith(b"\n")
        rows = read_table(self.path)
        if rows and tuple(rows[0]) != tuple(self.columns):
            raise ValueError(f"{self.path} is no table of this experiment; choose another --output")
        for row in rows if whole else rows[:-1]:
            if None not in row and None not in row.values():
                yield row


def run_trials(
    trials: Sequence[Trial],
    work: Callable[[Trial], tuple[Rows, Rows]],
    table: Ledger[Trial],
    times: Ledger[Trial],
    *,
    jobs: int,
    progress: OnProgress,
) -> None:
    """Do the trials that are not in ``table`` yet, and sort the table.

    ``work`` returns the rows of a trial and the rows with its times, which are kept apart because they differ from
    run to run; with several ``jobs`` (processes) it must be a function of a module, or a partial of one. Ctrl-C
    raises `Stopped`.
    """
    kept = table.blocks(trials)
    table.rewrite(kept)
    times.rewrite({trial: rows for trial, rows in times.blocks(trials).items() if trial in kept})
    left = [trial for trial in trials if trial not in kept]
    progress(0, len(left))
    done = 0
    try:
        for rows, seconds in _results(left, work, min(jobs, len(left))):
            _append(trials, table, rows, times, seconds)
            done += 1
            progress(done, len(left))
    except KeyboardInterrupt:
        raise Stopped(_kept(trials, table)) from None
    except BrokenProcessPool:
        raise RuntimeError(
            f"a worker process was killed, perhaps for lack of memory; {_kept(trials, table)}"
        ) from None
    table.rewrite(table.blocks(trials))
    times.rewrite(times.blocks(trials))


def _append(
    trials: Sequence[Trial], table: Ledger[Trial], rows: Rows, times: Ledger[Trial], seconds: Rows
) -> None:
    """Add the rows of a trial to both tables; an error says what is kept."""
    try:
        times.append(seconds)  # first: no trial in the table may lack its times
        table.append(rows)
    except OSError as error:
        more = f"{_kept(trials, table)}, and the same command resumes from there"
        raise OSError(error.errno, f"{error.strerror}; {more}", error.filename) from error


def _kept(trials: Sequence[Trial], table: Ledger[Trial]) -> str:
    return f"{len(table.blocks(trials))} of {len(trials)} draws are kept in {table.path}"


def _results(
    trials: Sequence[Trial], work: Callable[[Trial], tuple[Rows, Rows]], jobs: int
) -> Iterator[tuple[Rows, Rows]]:
    """What ``work`` returns for each trial, in the order in which they are finished."""
    if jobs <= 1:
        yield from (_on_one_thread(work, trial) for trial in trials)
        return
    others = set(multiprocessing.active_children())
    # Fresh processes: a fork would copy the locks of threads that it does not have.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _enter_worker)
    try:
        for future in as_completed([pool.submit(_on_one_thread, work, trial) for trial in trials]):
            yield future.result()
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # a trial may take minutes
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _on_one_thread(work: Callable[[Trial], tuple[Rows, Rows]], trial: Trial) -> tuple[Rows, Rows]:
    """On one thread, always: the last digits of a sum depend on how threads share it."""
    with one_thread():
        return work(trial)


def _enter_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
