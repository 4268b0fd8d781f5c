"""``papilio learn`` from files that need not fit into memory, with checkpoints, and on a Dask cluster."""

import signal
from pathlib import Path

import numpy as np
import pytest

import papilio as pp
from papilio.cli import learn
from papilio.cli.console import BadInput, Failed, ProgressBar, Stopped
from papilio.samples.passes import current_client

from .full_disk import no_room
from .limits import lower

OPTIONS = {"n_components": 12, "n_nonzero_coefs": 2, "method": learn.Method.FAST, "random_state": 0, "quiet": True}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Samples in one file and in three, and so little memory that they are read in passes."""
    lower(monkeypatch, sample=100, sample_per_atom=1, rows_per_part=50)
    monkeypatch.chdir(tmp_path)
    X = pp.datasets.rand(400, n_features=8, n_nonzero_coefs=2, random_state=0).signals.T
    np.save("X.npy", X)
    (tmp_path / "shards").mkdir()
    for i, part in enumerate(np.split(X, [30, 31])):
        np.save(f"shards/part-{9 + i}.npy", part)  # 10 comes after 9
    return tmp_path


def learned(source, **options):
    learn.learn(source, Path("d.npz"), **OPTIONS | options)
    return pp.load("d.npz")


@pytest.mark.slow
def test_a_file_and_a_folder_of_shards_give_what_the_estimator_learns_from_the_array(folder):
    model = pp.FastDictionaryLearning(12, 2, random_state=0).fit(np.load("X.npy"))
    assert "all data" in model.history_.phase
    assert learned("X.npy") == learned("shards") == model.operator_


@pytest.mark.parametrize("method", [learn.Method.KSVD, learn.Method.ONLINE])
def test_dense_dictionaries_are_learned_from_files_too(folder, method, capsys):
    learn.learn("shards", Path("d.npz"), **OPTIONS | {"method": method, "quiet": False, "json": True})
    assert pp.load("d.npz").shape == (8, 12)
    assert 0 < float(capsys.readouterr().out.split('"error": ')[1].split(",")[0]) < 1


@pytest.mark.slow
def test_a_stopped_run_keeps_its_checkpoint_and_goes_on_from_it(folder, monkeypatch):
    whole = learned("X.npy")
    lower(monkeypatch, seconds_between_checkpoints=0.0)
    report = ProgressBar.report

    def interrupted(self, step):
        if (step.phase, step.iteration) == ("refine", 5):
            signal.raise_signal(signal.SIGINT)  # Ctrl-C
        return report(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(ProgressBar, "report", interrupted)
        with pytest.raises(Stopped, match=r"resumes from run\.ckpt"):
            learned("X.npy", checkpoint="run.ckpt")
    assert (folder / "run.ckpt").exists()
    assert pp.load("d.npz") != whole
    assert learned("X.npy", checkpoint="run.ckpt") == whole
    assert not list(folder.glob("run.ckpt*"))


def learning_twice(monkeypatch):
    """A list that gets the phases of each run."""
    phases, report = [], ProgressBar.report

    def telling(self, step):
        phases.append(step.phase)
        return report(self, step)

    monkeypatch.setattr(ProgressBar, "report", telling)
    return phases


@pytest.mark.slow
def test_a_result_that_cannot_be_written_is_kept_in_the_checkpoint(folder, monkeypatch):
    whole, phases = learned("X.npy"), learning_twice(monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr("papilio.operators.storage.write_arrays", no_room)
        said = (
            r"d\.npz: could not be written: No space left on device.*; the run is kept in the checkpoint "
            r"run\.ckpt: the same command, with another --output if need be, goes on from there"
        )
        with pytest.raises(Failed, match=said):
            learned("X.npy", checkpoint=Path("run.ckpt"))
    assert [path.name for path in folder.glob("run.ckpt*")] == ["run.ckpt"]
    phases.clear()
    learn.learn("X.npy", Path("other.npz"), **OPTIONS, checkpoint=Path("run.ckpt"))
    assert pp.load("other.npz") == whole
    assert set(phases) == {"scan", "final"}
    assert not list(folder.glob("run.ckpt*"))


@pytest.mark.slow
def test_a_cluster_that_runs_gives_the_same(folder):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ) as cluster:
        assert learned("X.npy", scheduler=cluster.scheduler_address) == learned("X.npy")


def test_errors_with_files_and_clusters_are_one_clear_line(folder):
    X = np.load("X.npy")
    X[123, 4] = np.nan
    np.save("bad.npy", X)
    with pytest.raises(ValueError, match=r"NaN or infinity in row 123 of 'bad\.npy'"):
        learned("bad.npy")
    (folder / "empty").mkdir()
    for source, said in {"none.npy": "no such file", "empty": "must hold .npy files"}.items():
        with pytest.raises(BadInput, match=said):
            learned(source)
    np.save("shards/wide.npy", np.ones((3, 9)))
    with pytest.raises(BadInput, match=r"wide\.npy' must have 8 columns"):
        learned("shards")
    with pytest.raises(BadInput, match="--scheduler nowhere: no Dask scheduler answers there"):
        learned("X.npy", scheduler="nowhere")
    assert current_client() is None  # the one that failed is not used by the next run
