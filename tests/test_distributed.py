"""Passes on a Dask cluster: the same bits as without one, whatever becomes of the workers."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import papilio as pp
from papilio.samples import as_samples, map_reduce
from papilio.samples.passes import current_client

from .large import LEARNERS, X, assert_same, joined, make, on_disk, part_sizes, rows_of
from .limits import lower
from .test_samples import CHUNKS, with_wrong_chunk

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.usefixtures("large")


SOME = [pytest.param(name, marks=[pytest.mark.slow] * (name != "fast")) for name in LEARNERS]


@contextmanager
def cluster_of(processes):
    with (
        distributed.LocalCluster(
            n_workers=2, processes=processes, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    """Workers that are threads of this process: quick to start, and one client for all tests."""
    with cluster_of(processes=False) as client:
        yield client


def without_a_cluster(name, data, **options):
    """What is learned on threads, though there is a client."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("papilio.samples.passes.current_client", lambda: None)
        return make(name, **options).fit(data)


def threads_of_kernels(blocks, payload):
    return [(os.getpid(), threading.get_ident(), pp.get_num_threads())]


# -- workers in this process ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("learner", SOME)
def test_files_give_the_same_bits_on_a_cluster(client, learner, tmp_path):
    data = on_disk(tmp_path)
    expected = without_a_cluster(learner, data)
    assert_same(make(learner).fit(data), expected)
    assert_same(make(learner).fit(np.load(tmp_path / "x.npy", mmap_mode="r")), expected)
    assert make(learner).fit(data).score(data) == pytest.approx(expected.score(X), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("learner", SOME)
def test_dask_arrays_give_the_same_bits_on_a_cluster(client, learner, tmp_path):
    lazy = da.from_array(X, chunks=(part_sizes(), 8))
    expected = without_a_cluster(learner, on_disk(tmp_path))
    assert_same(make(learner).fit(lazy), expected)


def test_the_work_is_done_by_workers_that_have_one_thread_for_kernels(client, tmp_path):
    for samples in (on_disk(tmp_path), as_samples(da.from_array(X, chunks=(50, 8)))):
        _, threads, counts = zip(*map_reduce(samples, threads_of_kernels, None, joined), strict=True)
        assert threading.get_ident() not in threads
        assert set(counts) == {1}


def test_a_pass_whose_groups_are_all_known_does_not_run_again(client, tmp_path):
    kept = {}
    data = on_disk(tmp_path)
    whole = map_reduce(data, rows_of, None, joined, kept=kept)
    assert map_reduce(data, threads_of_kernels, None, joined, kept=kept) == whole


def test_nan_is_refused_with_its_place(client, tmp_path):
    rows = X.copy()
    rows[250, 3] = np.nan
    with pytest.raises(ValueError, match=r"row 250 of 'x.npy'"):
        make("fast").fit(on_disk(tmp_path, rows))
    with pytest.raises(ValueError, match=r"chunk 2, row 50 of it"):
        make("fast").fit(da.from_array(rows, chunks=(100, 8)))
    with pytest.raises(ValueError, match="chunk 2"):
        make("ksvd").fit(X).transform(da.from_array(rows, chunks=(100, 8))).compute()


@pytest.mark.parametrize("as_sparse", [False, True])
def test_codes_are_computed_on_the_cluster(client, as_sparse):
    model = make("fast", transform_sparse=as_sparse).fit(X)
    codes = model.transform(da.from_array(X, chunks=((1, 0, 99, 300), 8)))
    signals = model.inverse_transform(codes).compute()
    np.testing.assert_allclose(signals, model.inverse_transform(model.transform(X)), atol=1e-12)


def fitted_within(path):
    assert current_client() is None
    return make("ksvd").fit(pp.datasets.on_disk(path)).components_


def test_a_fit_within_a_task_does_not_wait_for_itself(client, tmp_path):
    data = on_disk(tmp_path)
    futures = client.map(fitted_within, [tmp_path / "x.npy"] * 3, pure=False)
    for found in client.gather(futures):
        np.testing.assert_array_equal(found, without_a_cluster("ksvd", data).components_)


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_that_is_not_what_its_array_declares_is_refused_by_its_number(client, name):
    with pytest.raises((ValueError, TypeError), match=r"^X must .*chunk 2|^chunk 2 of X must"):
        make("ksvd").fit(with_wrong_chunk(name))


# -- clusters without workers, and without a scheduler ---------------------------------------------------


@contextmanager
def small_cluster(n_workers):
    """A cluster of its own in this process, that a test may damage."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        distributed.LocalCluster(
            n_workers=n_workers, processes=False, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
        client.as_current(),
    ):
        yield cluster


@pytest.fixture
def impatient(monkeypatch):
    lower(monkeypatch, seconds_between_looks=0.2)
    monkeypatch.setenv("PAPILIO_WORKER_TIMEOUT", "1")


def kinds(tmp_path):
    """Files, a Dask array that is read in passes, and one that is loaded as a whole."""
    lazy = da.from_array(X, chunks=(50, 8))
    return {"files": on_disk(tmp_path), "Dask": lazy, "few": lazy[:100]}


@pytest.mark.parametrize("kind", ["files", "Dask", "few"])
def test_without_workers_a_fit_says_so_and_ends(kind, tmp_path, impatient):
    message = "X must be read by workers, .* has no workers, for 1 seconds"
    with small_cluster(0), pytest.raises(TimeoutError, match=message):
        make("ksvd").fit(kinds(tmp_path)[kind])


def slow_rows_of(blocks, payload):
    time.sleep(0.1)
    return rows_of(blocks, payload)


def test_workers_that_are_all_lost_are_not_waited_for_in_silence(tmp_path, impatient):
    with small_cluster(2) as cluster:

        def tick(done, total):
            if done == 2:
                cluster.scale(0)

        with pytest.raises(TimeoutError, match="has no workers, for 1 seconds"):
            map_reduce(on_disk(tmp_path), slow_rows_of, None, joined, tick=tick)


# -- workers that are processes -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes():
    with cluster_of(processes=True) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_processes_give_the_same_bits(processes, learner, tmp_path):
    data = on_disk(tmp_path)
    expected = without_a_cluster(learner, data)
    with processes.as_current():
        assert_same(make(learner).fit(data), expected)
        assert_same(make(learner).fit(da.from_array(X, chunks=(part_sizes(), 8))), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "dask"])
def test_a_worker_that_is_killed_in_a_pass_changes_nothing(kind, tmp_path):
    data = on_disk(tmp_path)
    expected = without_a_cluster("ksvd", data)
    if kind == "dask":
        data = da.from_array(X, chunks=(part_sizes(), 8))
    with cluster_of(processes=True) as client, client.as_current():
        victims = list(client.run(os.getpid).values())
        killed = []

        def kill(step):
            if step.phase.startswith("pass") and step.iteration >= len(part_sizes()) // 3 and not killed:
                killed.append(victims[0])
                os.kill(victims[0], signal.SIGKILL)

        model = make("ksvd", callback=kill).fit(data)
        assert killed
        assert_same(model, expected)
        client.wait_for_workers(2)
        assert victims[0] not in client.run(os.getpid).values()
