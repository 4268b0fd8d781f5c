"""The picture at the top of the README: its script reads the benchmarks, and it has the size that it says."""

import importlib.util
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "docs" / "figures" / "preview.py"


@pytest.fixture(scope="module")
def preview():
    specification = importlib.util.spec_from_file_location("preview", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_times_are_those_of_the_benchmarks(preview):
    times = preview.block_times()
    assert set(times) == {"papilio", *preview.SHOWN}
    assert len(times["papilio"]) >= 3
    assert {tuple(points) for points in times.values()} == {tuple(times["papilio"])}  # the same sizes
    assert all(1e-7 < seconds < 10 for points in times.values() for seconds in points.values())


def test_the_picture_is_there_at_twice_its_size(preview):
    with Image.open(ROOT / "docs" / "_static" / "preview.png") as picture:
        assert picture.size == (2 * preview.WIDTH, 2 * preview.HEIGHT)
    assert "docs/_static/preview.png" in (ROOT / "README.md").read_text(encoding="utf-8")
