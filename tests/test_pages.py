"""The pages do what they say: their Python blocks run in order, and their links lead somewhere."""

import runpy
import subprocess
import sys
from importlib.util import find_spec
from operator import attrgetter

import numpy as np
import pytest

import papilio as pp

from . import pages
from .processes import environment

# Pages with links, and without examples of Python.
OTHERS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "results/README.md")


def cases(language):
    """The pages that have blocks in a language."""
    return [page for page in pages.pages() if pages.blocks((pages.ROOT / page).read_text("utf-8"), language)]


def run_blocks(text):
    """The Python blocks of a page, in one namespace; what needs PyTorch, JAX or ONNX where it is installed."""
    scope = {"__name__": "page"}
    for block in pages.blocks(text, "python"):
        if all(name not in block or find_spec(name) for name in ("torch", "jax", "onnx")):
            exec(block, scope)


# On a busy machine no product may be fast enough; every other warning is an error.
@pytest.mark.examples
@pytest.mark.filterwarnings("ignore:no product with an error below 1")
@pytest.mark.parametrize("page", cases("python"))
def test_the_python_blocks_of_a_page_run(page, here):
    import matplotlib

    matplotlib.use("Agg")
    run_blocks((pages.ROOT / page).read_text(encoding="utf-8"))
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.examples
@pytest.mark.parametrize("page", cases("sh"))
def test_the_shell_blocks_of_a_page_run(page, here):
    for block in pages.blocks((pages.ROOT / page).read_text(encoding="utf-8"), "sh"):
        for line in block.splitlines():
            done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=here, env=environment())
            assert done.returncode == 0, f"{line}: {done.stderr}"
            told = [text for text in done.stderr.splitlines() if text.startswith("papilio: ")]
            assert [text for text in told if " so far" not in text] == []  # Only progress is allowed.


@pytest.mark.examples
@pytest.mark.filterwarnings("ignore")  # Dask warns.
def test_the_block_for_a_cluster_runs_on_one_of_this_machine(here):
    distributed = pytest.importorskip("distributed")
    text = (pages.ROOT / "docs" / "guide" / "scale.md").read_text(encoding="utf-8")
    [block] = pages.blocks(text, "py")
    (here / "shards").mkdir()
    np.save(here / "shards" / "0.npy", pp.datasets.image_patches(1_000, 6, random_state=0))
    with distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=":0") as cluster:
        for written, meant in {"tcp://scheduler:8786": cluster.scheduler_address, "/shared/": f"{here}/"}.items():
            assert written in block
            block = block.replace(written, meant)
        scope = {"pp": pp}
        exec(block, scope)
        scope["client"].close()
    assert scope["model"].operator_.shape == (36, 256)


def test_blocks_that_are_not_run_here_have_tests_of_their_own():
    """Of a cluster, above; of SPAMS, in `test_coming_from`."""
    with_others = [page for page in pages.pages() if pages.blocks((pages.ROOT / page).read_text(), "py")]
    assert with_others == ["docs/coming_from/spams.md", "docs/guide/scale.md"]


@pytest.mark.parametrize("page", [*pages.pages(), *OTHERS])
def test_links_lead_somewhere(page):
    assert pages.dead_links(pages.ROOT / page) == []


def test_the_calls_of_the_decision_figure_exist_and_it_is_drawn_as_its_script_says(monkeypatch):
    folder = pages.ROOT / "docs" / "figures"
    monkeypatch.syspath_prepend(folder)
    choosing = runpy.run_path(str(folder / "choosing.py"))
    assert (folder / "choosing.svg").read_text(encoding="utf-8") == choosing["figure"]()
    calls = {call for cases in choosing["PATHS"].values() for text in cases.values() for call in text.split(", ")}
    names = {call.removesuffix("(…)") for call in calls}
    known = [attrgetter(name)(pp) for name in sorted(names) if not name.startswith("torch.")]
    assert len(known) > 8
