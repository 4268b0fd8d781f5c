"""On a full disk, the error names the file and what to do, and no incomplete file is left."""

import errno
import re

import numpy as np
import pytest

import papilio as pp
from experiments.harness import new_figure, save, write_table
from papilio.cli.console import Failed, Terminal
from papilio.cli.outputs import write
from papilio.cli.pages import write_report
from papilio.report import Subject
from papilio.results import Tradeoff, TradeoffPoint

from .full_disk import fill, no_room, small_disk

OP = pp.transforms.hadamard(32)


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 1 << 18) as folder:
        yield folder


def draw(path):
    figure = new_figure(3, 3)
    figure.subplots().plot(np.random.default_rng(0).standard_normal((2000, 5)))
    return save(figure, path)


WRITERS = {
    "op.npz": lambda path: OP.save(path),
    "table.csv": lambda path: write_table(path, ("a", "b"), [{"a": i, "b": i} for i in range(5000)]),
    "figure.png": draw,
    "points.csv": lambda path: Tradeoff(
        (TradeoffPoint(0.5, 0.1, OP),), 0.0, pp.results.Status.CONVERGED, 0.0
    ).save(path.parent),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_names_the_file_and_the_way_out_and_leaves_what_was_there(name, disk):
    filling = fill(disk)
    before = sorted(disk.iterdir())
    with pytest.raises(
        OSError, match=r"No space left on device; make room there or choose another path: "
    ) as caught:
        WRITERS[name](disk / name)
    assert caught.value.errno == errno.ENOSPC
    assert str(disk) in str(caught.value.filename)
    assert sorted(disk.iterdir()) == before
    filling.unlink()
    WRITERS[name](disk / name)
    assert (disk / name).stat().st_size > 0


@pytest.mark.parametrize("name", ["y.npy", "y.csv", "y.mat"])
def test_an_output_of_the_command_line_is_reported_in_one_line(name, disk):
    filling = fill(disk)
    said = re.escape(f"{disk / name}: could not be written: No space left on device; make room there or choose")
    with pytest.raises(Failed, match=said):
        write(disk / name, np.ones((50, 50)))
    assert list(disk.iterdir()) == [filling]


def test_a_page_is_reported_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("pathlib.Path.write_text", no_room)
    subject = Subject("A product", OP, "nowhere", 0.0, "error")
    with pytest.raises(Failed, match=r"page\.html: could not be written: No space left on device; make room"):
        write_report(Terminal(quiet=True), tmp_path / "page.html", [subject])
    assert not any(tmp_path.iterdir())
