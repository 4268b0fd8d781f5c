"""Damaged files and checkpoints: they are read, or refused with an error that names them."""

import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import papilio as pp
from papilio.cli import inputs
from papilio.cli.console import BadInput

from ..helpers import gaussian
from .damage import damaged, edited_npz, edited_png
from .test_calls import assert_sound, is_refusal, stopping

MATRIX = gaussian((6, 5))
SPARSE = sp.csr_array(MATRIX * (MATRIX > 0))
PIXELS = np.random.default_rng(0).integers(0, 256, (9, 8, 3)).astype(np.uint8)


def save_png(path):
    from PIL import Image

    Image.fromarray(PIXELS).save(path)


SAVERS = {
    "op.npz": lambda path: pp.SparseProduct([SPARSE, gaussian((5, 4))], 0.5).save(path),
    "m.npy": lambda path: np.save(path, MATRIX),
    "one.npz": lambda path: np.savez(path, anything=MATRIX),
    "packed.npz": lambda path: np.savez_compressed(path, anything=MATRIX),
    "csr.npz": lambda path: sp.save_npz(path, SPARSE),
    "coo.npz": lambda path: sp.save_npz(path, sp.coo_array(SPARSE), compressed=False),
    "m.csv": lambda path: np.savetxt(path, MATRIX, delimiter=",", header="a,b,c,d,e", comments=""),
    "m.png": save_png,
}


def readers(name):
    """All that read a file of this name."""
    common = [inputs.read_matrix, inputs.read_operator]
    if name.startswith("op."):
        return [pp.load, *common]
    if name.endswith(".npy"):
        return [lambda path: pp.datasets.on_disk(path).load(), *common]
    return [inputs.read_pixels, *common] if name.endswith(".png") else common


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVERS)
@given(data=st.data())
def test_damaged_files_are_read_or_refused_by_name(here, name, data):
    SAVERS[name](name)
    kinds = [damaged] + [edited_npz] * name.endswith(".npz") + [edited_png] * name.endswith(".png")
    content = data.draw(st.sampled_from(kinds).flatmap(lambda kind: kind(Path(name).read_bytes())))
    Path(name).write_bytes(content)
    for read in readers(name):
        try:
            value = read(name)
        except Exception as error:
            if name not in str(error) or not (isinstance(error, BadInput) or is_refusal(error, (OSError,))):
                raise
        else:
            assert_sound(value, finite=read is not inputs.read_pixels)


# -- checkpoints ------------------------------------------------------------------------------------------

X = gaussian((60, 6))
LEARNERS = {
    "KSVD": {"max_iter": 6},
    "SparseKSVD": {"max_iter": 6},
    "OnlineDictionaryLearning": {"max_iter": 4},
    "FastDictionaryLearning": {"effort": 0.1, "complexity": 0.8},
}


def make(name, **options):
    return getattr(pp, name)(8, 2, random_state=0, **(LEARNERS[name] | options))


@cache
def interrupted(name, calls):
    """The checkpoint of a run that its callback stopped after so many calls."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "run"
        make(name, checkpoint=path, callback=stopping(calls)).fit(X)
        return path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@given(data=st.data())
def test_a_damaged_checkpoint_goes_on_to_a_result_or_is_refused(every_state_is_written, here, name, data):
    content = interrupted(name, data.draw(st.sampled_from((1, 4, 8))))
    path = here / "run"
    path.write_bytes(data.draw(damaged(content)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = make(name, checkpoint=path, callback=stopping(500)).fit(X)
    except Exception as error:
        if not is_refusal(error, (OSError,)):
            raise
    else:
        assert model.components_.shape == (8, 6)
        assert_sound((model.components_, model.operator_, model.transform(X)), finite=True)
