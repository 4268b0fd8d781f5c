"""Many independent trials, on several processes, whose rows are kept as soon as each is finished.

A stopped run goes on where it was: the table on the disk says which trials are there. In the end the rows stand in
the order of the trials, so that the table is the same, byte by byte, however often and wherever the run was
stopped, and on however many processes it ran.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..runtime.threads import one_thread
from .tables import Row, lines_of, read_table, write_table

Task = TypeVar("Task")
Rows = list[dict[str, Any]]
Progress = Callable[[int, int], None]  # told how many are finished, of how many


class Stopped(Exception):
    """The user stopped a run; its message says what is kept."""


class Ledger(Generic[Task]):
    """A table with a block of rows for each trial.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        Of the table.
    keys : sequence of str
        The first of the columns, which name a row.
    expected : callable
        Gives for a task the keys of its rows, in order.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str],
        keys: Sequence[str],
        expected: Callable[[Task], list[tuple[str, ...]]],
    ) -> None:
        self.path = path
        self._columns = columns
        self._keys = keys
        self._expected = expected

    def blocks(self, tasks: Sequence[Task]) -> dict[Task, list[Row]]:
        """The rows of those tasks that the table has all rows of, each in order.

        What a killed run left half written, and rows of other tasks, are not among them.
        """
        if not self.path.exists():
            return {}
        found = {tuple(row[key] for key in self._keys): row for row in self._whole_rows()}
        blocks = {}
        for task in tasks:
            names = self._expected(task)
            if all(name in found for name in names):
                blocks[task] = [found[name] for name in names]
        return blocks

    def rewrite(self, blocks: Mapping[Task, list[Row]]) -> None:
        """Replace the table by these blocks."""
        write_table(self.path, self._columns, [row for rows in blocks.values() for row in rows])

    def append(self, rows: Rows) -> None:
        """Add a block, and wait until it is on the disk."""
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            file.write(lines_of(self._columns, rows))
            file.flush()
            os.fsync(file.fileno())

    def _whole_rows(self) -> Iterator[Row]:
        whole = self.path.read_bytes().endswith(b"\n")
        rows = read_table(self.path)
        if rows and tuple(rows[0]) != tuple(self._columns):
            raise ValueError(f"{self.path} is no table of this experiment; choose another --output")
        for row in rows if whole else rows[:-1]:
            if None not in row and None not in row.values():
                yield row


def run_trials(
    tasks: Sequence[Task],
    work: Callable[[Task], tuple[Rows, Rows]],
    table: Ledger[Task],
    times: Ledger[Task],
    *,
    jobs: int,
    progress: Progress,
) -> None:
    """Do the tasks that are not in ``table`` yet, and put all of them in order.

    Parameters
    ----------
    tasks : sequence
        In the order of the table.
    work : callable
        Gives the rows of a task, and those of its times, which are no part of the result: they differ from run to
        run. For several processes it must be a module's function, or a partial of one.
    table, times : Ledger
    jobs : int
        Processes; one is this one.
    progress : callable
        Told about the tasks that are left.

    Raises
    ------
    Stopped
        On Ctrl-C.
    """
    kept = table.blocks(tasks)
    table.rewrite(kept)
    times.rewrite({task: rows for task, rows in times.blocks(tasks).items() if task in kept})
    left = [task for task in tasks if task not in kept]
    progress(0, len(left))
    done = 0
    try:
        for rows, seconds in _results(left, work, min(jobs, len(left))):
            times.append(seconds)  # first, so that no trial in the table lacks its times
            table.append(rows)
            done += 1
            progress(done, len(left))
    except KeyboardInterrupt:
        raise Stopped(_kept(tasks, table)) from None
    except BrokenProcessPool:
        raise RuntimeError(
            f"a worker process was killed, perhaps for lack of memory; {_kept(tasks, table)}"
        ) from None
    table.rewrite(table.blocks(tasks))
    times.rewrite(times.blocks(tasks))


def _kept(tasks: Sequence[Task], table: Ledger[Task]) -> str:
    return f"{len(table.blocks(tasks))} of {len(tasks)} draws are kept in {table.path}"


def _results(
    tasks: Sequence[Task], work: Callable[[Task], tuple[Rows, Rows]], jobs: int
) -> Iterator[tuple[Rows, Rows]]:
    """What ``work`` makes of each task, in the order in which they are finished."""
    if jobs <= 1:
        yield from (_on_one_thread(work, task) for task in tasks)
        return
    others = set(multiprocessing.active_children())
    # Fresh processes: a fork would copy the locks of threads that do not live on in it.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _enter_worker)
    try:
        for future in as_completed([pool.submit(_on_one_thread, work, task) for task in tasks]):
            yield future.result()
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()  # a trial may take minutes
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _on_one_thread(work: Callable[[Task], tuple[Rows, Rows]], task: Task) -> tuple[Rows, Rows]:
    """Sums depend on how threads share them, if only in the last digits: so one process, too, uses one thread."""
    with one_thread():
        return work(task)


def _enter_worker() -> None:
    """Ctrl-C is for the parent; when that is gone, so is the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
