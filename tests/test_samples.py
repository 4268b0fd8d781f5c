"""Learning from data that need not fit into memory: Dask arrays, memory maps, files."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import papilio as pp
from papilio.dictionary.signals import Coder, Coding, code_part, merge_statistics
from papilio.runtime.session import Interrupted
from papilio.samples import as_samples, held, map_reduce

from .large import LEARNERS, X, assert_same, joined, make, on_disk, part_sizes, rows_of

da = pytest.importorskip("dask.array")
pytestmark = pytest.mark.usefixtures("large")


@pytest.fixture(params=LEARNERS)
def learner(request):
    return request.param


def mapped(path, rows=X, mode="r"):
    np.save(path / "x.npy", rows)
    return np.load(path / "x.npy", mmap_mode=mode)


# -- the same as in memory -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fast_dictionary_has_the_same_bits_from_memory_maps_files_and_arrays(tmp_path):
    expected = make("fast").fit(X)
    assert "all data" in expected.history_.phase  # it did start from a sample
    (tmp_path / "shards").mkdir()
    for data in (mapped(tmp_path), on_disk(tmp_path), on_disk(tmp_path / "shards", sizes=(150, 0, 1, 249))):
        assert_same(make("fast").fit(data), expected)


@pytest.mark.parametrize("name", ["online", "ksvd"])
def test_dense_dictionaries_have_the_same_bits_from_memory_maps_and_files(tmp_path, name):
    expected = make(name).fit(mapped(tmp_path))
    assert "all data" in expected.history_.phase
    (tmp_path / "shards").mkdir()
    assert_same(make(name).fit(on_disk(tmp_path)), expected)
    assert_same(make(name).fit(on_disk(tmp_path / "shards", sizes=(7, 393))), expected)


@pytest.mark.slow
def test_a_dask_array_with_the_same_borders_gives_the_same_bits(tmp_path, learner):
    expected = make(learner).fit(on_disk(tmp_path))
    assert_same(make(learner).fit(da.from_array(X, chunks=(part_sizes(), 8))), expected)


def test_learning_from_all_data_is_better_than_from_the_sample_alone(tmp_path, learner):
    scores = []
    for n_passes in (0, 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("papilio.dictionary.signals._PASSES", n_passes)
            scores.append(make(learner).fit(on_disk(tmp_path)).score(X))
    assert scores[1] > scores[0]


# -- transform, inverse_transform, score ----------------------------------------------------------------


def test_codes_and_scores_of_large_data_are_those_of_arrays(tmp_path, learner):
    model = make(learner).fit(X)
    for data in (mapped(tmp_path), on_disk(tmp_path)):
        np.testing.assert_allclose(model.transform(data), model.transform(X), rtol=1e-10, atol=1e-12)
        assert model.score(data) == pytest.approx(model.score(X), rel=1e-12)
    lazy = da.from_array(X, chunks=((1, 0, 99, 300), 3))
    codes = model.transform(lazy)
    assert isinstance(codes, da.Array)
    assert codes.chunks == ((1, 0, 99, 300), (12,))
    np.testing.assert_allclose(codes.compute(), model.transform(X), rtol=1e-10, atol=1e-12)
    assert model.score(lazy) == pytest.approx(model.score(X), rel=1e-12)
    signals = model.inverse_transform(codes)
    assert isinstance(signals, da.Array)
    assert signals.shape == X.shape
    np.testing.assert_allclose(signals.compute(), model.inverse_transform(codes.compute()), atol=1e-12)


def test_sparse_codes_of_a_dask_array_come_in_csr_blocks(tmp_path):
    model = make("fast", transform_sparse=True).fit(X)
    lazy = da.from_array(X, chunks=((100, 0, 300), 8))
    codes = model.transform(lazy)
    assert all(isinstance(block.compute(), sp.csr_array) for block in codes.blocks)
    whole = codes.compute()
    assert sp.issparse(whole)
    np.testing.assert_allclose(whole.toarray(), model.transform(X).toarray(), atol=1e-12)
    np.testing.assert_allclose(
        model.inverse_transform(codes).compute(), model.inverse_transform(model.transform(X)), atol=1e-12
    )
    assert isinstance(model.transform(on_disk(tmp_path)), sp.csr_array)


# -- kinds of arrays and files --------------------------------------------------------------------------


def test_rows_are_read_as_they_are_from_every_kind_of_map_and_file(tmp_path):
    whole = mapped(tmp_path)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(X))
    np.save(tmp_path / "swapped.npy", X.astype(">f8"))
    own = mapped(tmp_path, mode="c")
    own[3] = 7.0
    changed = X.copy()
    changed[3] = 7.0
    wide = np.memmap(tmp_path / "wide", np.float64, "w+", 24, (400, 10))
    wide[:, 1:9] = X
    cases = [
        (whole[50:], X[50:]),
        (whole[50:][20:90], X[70:140]),
        (whole[::3], X[::3]),
        (whole[:, 2:5], X[:, 2:5]),
        (whole[::-1], X[::-1]),
        (whole[:8].T, X[:8].T),
        (np.load(tmp_path / "fortran.npy", mmap_mode="r"), X),
        (np.load(tmp_path / "fortran.npy", mmap_mode="r")[:, 1:4], X[:, 1:4]),
        (pp.datasets.on_disk(tmp_path / "fortran.npy"), X),
        (pp.datasets.on_disk(tmp_path / "swapped.npy"), X),
        (own, changed),
        (own[2:9], changed[2:9]),
        (wide[5:, 1:9], X[5:]),
        (np.load(tmp_path / "x.npy", mmap_mode="r") * 2, 2 * X),
    ]
    for data, expected in cases:
        samples = as_samples(data)
        assert samples.shape == expected.shape
        np.testing.assert_array_equal(samples.load(), expected)
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in samples.blocks()]), expected)


def test_shards_are_taken_in_the_order_of_their_numbers(tmp_path):
    for number in (10, 9, 1, 100):
        np.save(tmp_path / f"part-{number}.npy", np.full((2, 3), float(number)))
    np.save(tmp_path / "part-09.npy", np.full((2, 3), 8.5))
    np.save(tmp_path / "1²3.npy", np.zeros((1, 3)))  # no digit, though Python takes it for one
    rows = pp.datasets.on_disk(tmp_path).load()
    np.testing.assert_array_equal(rows[:, 0], [0, 1, 1, 8.5, 8.5, 9, 9, 10, 10, 100, 100])


# -- errors ---------------------------------------------------------------------------------------------


def with_nan(row):
    rows = X.copy()
    rows[row, 3] = np.nan
    return rows


def test_nan_is_refused_with_its_place(tmp_path, learner):
    rows = with_nan(250)
    with pytest.raises(ValueError, match=r"row 250 of 'x.npy'"):
        make(learner).fit(on_disk(tmp_path, rows))
    (tmp_path / "shards").mkdir()
    with pytest.raises(ValueError, match=r"row 50 of 'part-2.npy'"):
        make(learner).fit(on_disk(tmp_path / "shards", rows, (100, 100, 200)))
    lazy = da.from_array(rows, chunks=(100, 8))
    with pytest.raises(ValueError, match=r"chunk 2, row 50 of it \(row 250 of all\)"):
        make(learner).fit(lazy)
    with pytest.raises(ValueError, match="chunk 2"):
        make(learner).fit(X).transform(lazy).compute()
    with pytest.raises(ValueError, match="chunk 2"):
        make(learner).fit(X).score(lazy)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (da.ones((4, 3, 2)), "2 dimensions"),
        (da.ones(4), "2 dimensions"),
        (da.ones((0, 3)), "must not be empty"),
        (da.ones((3, 0)), "must not be empty"),
        (da.ones((20, 3), dtype=complex), "X must be real"),
        (da.ones((20, 3), chunks=5)[da.ones(20, chunks=5) > 0], "known chunk sizes"),
        (np.memmap(__file__, np.uint8, "r", 0, (40,)), "2 dimensions"),
        (np.memmap(__file__, np.complex64, "r", 0, (4, 3)), "X must be real"),
    ],
)
def test_impossible_arrays_are_refused(learner, data, message):
    with pytest.raises(ValueError, match=message):
        make(learner).fit(data)


CHUNKS = {
    "rows": (lambda rows: rows[:-1], "100 × 8 for chunk 2, got (99, 8)"),
    "columns": (lambda rows: rows[:, :-1], "100 × 8 for chunk 2, got (100, 7)"),
    "one dimension": (lambda rows: rows[0], "100 × 8 for chunk 2, got (8,)"),
    "complex": (lambda rows: rows + 1j, "chunk 2 of complex128"),
    "objects": (lambda rows: rows.astype(object), "chunk 2 of object"),
    "text": (lambda rows: rows.astype(str), "chunk 2 of <U32"),
    "dates": (lambda rows: np.full(rows.shape, np.datetime64("2000-01-01")), "chunk 2 of datetime64"),
    "ragged": (lambda rows: [[1, 2], [3]], "chunk 2 of X must be a rectangular array"),
    "nothing": (lambda rows: None, "chunk 2, got ()"),
    "sparse": (sp.csr_array, "chunk 2 of type csr_array"),
    "masked": (lambda rows: np.ma.masked_less(rows, 0), "chunk 2 of X must not be a masked array"),
    "NaN": (lambda rows: rows * np.nan, "in chunk 2, row 0 of it"),
}


def with_wrong_chunk(name, chunks=(100, 8), rows=X):
    """A Dask array that declares to be ``rows``; its chunk 2 is something else."""

    def wrong(rows, block_id):
        return CHUNKS[name][0](rows) if block_id[0] == 2 else rows

    lazy = da.from_array(rows, chunks=chunks)
    return lazy.map_blocks(wrong, dtype=lazy.dtype, meta=np.empty((0, 0)))


@pytest.mark.parametrize("name", CHUNKS)
def test_a_chunk_that_is_not_what_its_array_declares_is_refused_by_its_number(name):
    data, message = with_wrong_chunk(name), re.escape(CHUNKS[name][1])
    model = make("ksvd").fit(X)
    for use in (make("ksvd").fit, model.score):
        with pytest.raises((ValueError, TypeError), match=rf"^X must .*{message}|^{message}"):
            use(data)
    with pytest.raises((ValueError, TypeError), match=r"^X.* must .*chunk 2|^X, chunk 2, must|^chunk 2 of X must"):
        model.transform(data).compute()


def damaged_files(path):
    np.save(path / "sound.npy", X)
    content = (path / "sound.npy").read_bytes()
    np.save(path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    np.save(path / "vector.npy", X[0])
    np.save(path / "words.npy", np.full((2, 2), "word"))
    np.save(path / "records.npy", np.zeros((2, 2), dtype=[("a", float)]))
    np.save(path / "empty.npy", X[:0])
    (path / "short.npy").write_bytes(content[:-1])
    (path / "two.npy").write_bytes(content + content)
    (path / "nothing.npy").write_bytes(b"")
    (path / "text.npy").write_text("1,2,3\n4,5,6\n" * 20)
    (path / "header.npy").write_bytes(content[:40])
    for name, shape in {"negative": b"(-40,-8)", "truth": b"(True,8)", "open": b"(400, 8 "}.items():
        (path / f"{name}.npy").write_bytes(content.replace(b"(400, 8)", shape))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("objects", "'objects.npy' is not an intact .npy file of samples: .* Python objects"),
        ("vector", "it must hold a matrix"),
        ("words", "it must hold real or complex"),
        ("records", "it must hold real or complex"),
        ("empty", "X must not be empty"),
        ("short", "'short.npy' is not an intact"),
        ("two", "it is longer than its header says"),
        ("nothing", "'nothing.npy' is not an intact"),
        ("text", "'text.npy' is not an intact"),
        ("header", "'header.npy' is not an intact"),
        ("negative", "'negative.npy' is not an intact"),
        ("truth", "'truth.npy' is not an intact"),
        ("open", "'open.npy' is not an intact"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, name, message):
    damaged_files(tmp_path)
    with pytest.raises(ValueError, match=message):
        pp.datasets.on_disk(tmp_path / f"{name}.npy")


def test_folders_must_hold_files_that_agree(tmp_path):
    with pytest.raises(ValueError, match=r"must hold \.npy files"):
        pp.datasets.on_disk(tmp_path)
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :7])
    with pytest.raises(ValueError, match=r"'b.npy' must have 8 columns, as 'a.npy' has, got 7"):
        pp.datasets.on_disk(tmp_path)
    with pytest.raises(FileNotFoundError, match="missing"):
        pp.datasets.on_disk(tmp_path / "missing.npy")


# -- passes ---------------------------------------------------------------------------------------------


def threads_seen(blocks, payload):
    return [pp.get_num_threads()]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 255, 256, 257, 400])
def test_a_pass_sees_each_row_once_and_in_order(count):
    rows = np.resize(X, (count, 8))
    for samples in (held(rows), as_samples(da.from_array(rows, chunks=(7, 8)))):
        seen = map_reduce(samples, rows_of, None, joined)
        starts, lengths = zip(*seen, strict=True)
        assert list(starts) == np.cumsum([0, *lengths[:-1]]).tolist()
        assert sum(lengths) == count


def test_kernels_have_one_thread_within_a_pass_and_their_own_number_after_it():
    try:
        pp.set_num_threads(3)
        for samples in (held(X), as_samples(da.from_array(X, chunks=(50, 8)))):
            assert set(map_reduce(samples, threads_seen, None, joined)) == {1}
            assert pp.get_num_threads() == 3
    finally:
        pp.set_num_threads(None)


def test_a_pass_goes_on_from_the_groups_that_are_known():
    ticks, kept = [], {}
    with pytest.raises(Interrupted):
        map_reduce(held(X), rows_of, None, joined, kept=kept, tick=lambda done, total: done > total // 2)
    assert 0 < len(kept) < 16
    known = dict(kept)
    whole = map_reduce(held(X), rows_of, None, joined, kept=kept, tick=lambda *now: ticks.append(now))
    assert whole == map_reduce(held(X), rows_of, None, joined)
    assert {i: kept[i] for i in known} == known
    assert ticks[-1][0] == ticks[-1][1] == len(held(X).parts())


def test_a_callback_sees_the_passes_and_can_stop_within_one(tmp_path, learner):
    seen = []

    def stop(step):
        seen.append(step)
        return step.phase == "pass 1" and step.iteration > 5

    model = make(learner, callback=stop).fit(on_disk(tmp_path))
    assert {"scan", "pass 1"} <= {step.phase for step in seen}
    assert max(step.iteration for step in seen if step.phase == "scan") == len(held(X).parts())
    assert not any(step.phase.startswith(("scan", "pass")) for step in model.history_)
    assert np.isfinite(model.transform(X)).all()
    assert "pass 2" not in {step.phase for step in seen}


# -- sums -----------------------------------------------------------------------------------------------


def test_the_sums_of_a_pass_are_those_of_all_samples():
    D = np.random.default_rng(3).standard_normal((8, 12))
    assert len(held(X).parts()) > 3
    found = map_reduce(held(X), code_part, Coding(D, Coder(2), 5), merge_statistics)
    codes = pp.omp(D, X.T, 2).toarray()
    errors = np.sum((X.T - D @ codes) ** 2, axis=0)
    np.testing.assert_allclose(found.gram, codes @ codes.T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.cross, codes @ X, rtol=1e-10, atol=1e-10)
    assert found.energy == pytest.approx(np.sum(X**2), rel=1e-12)
    assert found.residual == pytest.approx(errors.sum(), rel=1e-10)
    np.testing.assert_array_equal(found.uses, np.count_nonzero(codes, axis=1))
    worst = np.argsort(-errors)[:5]
    np.testing.assert_array_equal(found.worst, X[worst])
    np.testing.assert_allclose(found.badness, errors[worst], rtol=1e-10)


def test_a_writable_memory_map_is_learned_from(tmp_path):
    data = np.memmap(tmp_path / "x", np.float64, "w+", 0, X.shape)
    data[:] = X
    assert_same(make("fast").fit(data), make("fast").fit(X))


def test_a_file_that_became_shorter_meanwhile_is_an_error(tmp_path):
    data = on_disk(tmp_path)
    (tmp_path / "x.npy").write_bytes(b"short")
    with pytest.raises(ValueError, match="must not become shorter"):
        make("fast").fit(data)


def test_blocks_that_overwrite_each_other_are_summed_as_they_were():
    rows, D = np.random.default_rng(0).standard_normal((70, 8)), np.random.default_rng(1).standard_normal((8, 12))
    buffer = np.empty((10, 8))

    def blocks():
        for start in range(0, 70, 10):  # fewer rows than are summed together
            buffer[:] = rows[start : start + 10]
            yield start, buffer

    found, expected = (code_part(each, Coding(D, Coder(3))) for each in (blocks(), iter([(0, rows)])))
    np.testing.assert_allclose(found.cross, expected.cross, atol=1e-12)
    np.testing.assert_allclose(found.gram, expected.gram, atol=1e-12)
    assert found.residual == pytest.approx(expected.residual)


def test_dask_arrays_that_do_not_fit_a_model_are_refused_at_once():
    model = make("fast").fit(X)
    for data, message in [
        (da.ones((4, 3)), "8 columns"),
        (da.ones(8), "8 columns"),
        (da.ones((4, 8), dtype=complex), "real"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.transform(data)
        with pytest.raises(ValueError, match=message.replace("8", "12")):
            model.inverse_transform(da.ones((4, 12), dtype=complex) if message == "real" else data)
    unknown = da.from_array(X, chunks=(50, 8))[da.ones(400, chunks=50) > 0]
    np.testing.assert_allclose(model.transform(unknown).compute(), model.transform(X), atol=1e-12)
