"""Checkpoints that are intact files with other contents than the run can have written: refused, with one error."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import papilio as pp
from papilio.runtime.checkpoint import Checkpoint
from papilio.runtime.files import read_arrays, write_arrays
from papilio.runtime.randomness import random_as_text, restore_random
from papilio.runtime.session import Session

from .large import LEARNERS, X, make
from .learners import N_ATOMS, N_NONZERO
from .limits import lower

BUILDERS = {name: partial(make, name) for name in LEARNERS} | {
    "fast from online": partial(make, "fast", init="online"),
    "sparse ksvd": lambda **options: pp.SparseKSVD(N_ATOMS, N_NONZERO, max_iter=5, random_state=0, **options),
}
REFUSED = r"(damaged or belongs to another run|belongs to another run|another version|is damaged).*delete "


@pytest.fixture(autouse=True)
def short_runs(every_state_is_written, monkeypatch):
    lower(monkeypatch, refinement_rounds=3, rows_per_part=150)


class Resumed(BaseException):
    """The state was accepted: its phase has begun."""


@pytest.fixture
def states(tmp_path, monkeypatch):
    """The contents of a run's checkpoints, the last one of each layout; and its phases, without their work."""

    def collect(build):
        found, phases, write, run, path = {}, [], Checkpoint.write, Session.run, tmp_path / "run"

        def noting(self, own, state=None):
            phases.extend(phase._replace(work=resumed) for phase in own)
            return run(self, own, state)

        def resumed(state):
            raise Resumed

        def keeping(self, state):
            write(self, state)
            arrays = read_arrays(path)
            phase, groups = str(arrays["session/phase"]), any("groups" in name for name in arrays)
            found[phase, groups, len(state.get("state", {}))] = arrays

        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "write", keeping)
            patch.setattr(Session, "run", noting)
            build(checkpoint=path).fit(X)
        path.unlink()
        return found, phases

    return collect


def accepts(phases, path, arrays):
    """Whether a run with these phases resumes from these arrays; anything but the one error is a failure."""
    write_arrays(path, arrays)
    try:
        with Session(random_state=0, checkpoint=path, identity={}) as session:
            session.seed()  # of the random sample
            session.run(phases)
    except Resumed:
        return True
    except ValueError as error:
        said = str(error)
    assert re.search(REFUSED, said)
    return False


def longer(array):
    return np.concatenate([array, array]) if array.ndim else array[None]


ALTERATIONS = {
    "longer": longer,
    "flat": lambda array: array.reshape(-1, 1) if array.ndim < 2 else array.ravel(),
    "empty": lambda array: np.zeros(0),
    "text": lambda array: np.full(array.shape, "x"),
    "complex": lambda array: np.full(array.shape, 1j),
    "not a number": lambda array: np.full(array.shape, np.nan),
    "negative": lambda array: (
        np.full(array.shape, -7, array.dtype) if array.ndim == 0 else np.full(array.shape, -np.inf)
    ),
}


@pytest.mark.parametrize(
    ("name", "least"),
    [("ksvd", "finished"), *(pytest.param(name, "", marks=pytest.mark.slow) for name in BUILDERS)],
)
def test_other_names_sizes_dtypes_and_numbers_are_refused(name, least, states, tmp_path):
    """One array after the other, in the state of each phase; of the sums of a pass, those of the first group."""
    path, wrong = tmp_path / "run", []
    found, phases = states(BUILDERS[name])
    assert {phase for phase, *_ in found} >= {"all data", "finished"}
    for (phase, *_), arrays in found.items():
        assert accepts(phases, path, arrays), phase
        if least not in phase:
            continue
        for each in arrays:
            if "/groups/" not in each or "/groups/0/" in each:
                wrong += [
                    (phase, each, how)
                    for how, case in altered_in(arrays, each)
                    if not _is_harmless(each, how, case, arrays) and accepts(phases, path, case)
                ]
    assert wrong == []


def altered_in(arrays, name):
    """The arrays without the one of this name, with it under another name, and with others in its place."""
    others = {key: array for key, array in arrays.items() if key != name}
    yield "missing", others
    yield "renamed", others | {f"{name}x": arrays[name]}
    for how, alter in ALTERATIONS.items():
        if not (how == "negative" and arrays[name].dtype.kind == "U"):
            yield how, others | {name: alter(arrays[name])}


def _is_harmless(name, how, case, arrays):
    """What is the same, or legal, or never looked at."""
    same = name in case and np.array_equal(case[name], arrays[name]) and case[name].dtype == arrays[name].dtype
    legal = {("negative", "scale"), ("text", "history/phase")}
    unread = {("hierarchy", "state/status"), ("refine", "state/levels")}
    return (
        same
        or any(how == kind and name.endswith(end) for kind, end in legal)
        or (how == "missing" and (str(arrays["session/phase"]), name) in unread)
    )


@pytest.mark.parametrize("size", ["n_components", "n_features"])
def test_a_dictionary_of_another_size_never_becomes_the_result(size, states, tmp_path):
    build, path = BUILDERS["ksvd"], tmp_path / "run"
    found, _ = states(build)
    arrays = next(arrays for (phase, *_), arrays in found.items() if phase == "finished")
    dense = arrays["state/dictionary/dense"]
    fewer = dense[:, :-1] if size == "n_components" else dense[:-1]
    write_arrays(path, arrays | {"state/dictionary/dense": fewer})
    with pytest.raises(ValueError, match=r"damaged or belongs to another run: state/dictionary must have shape"):
        build(checkpoint=path).fit(X)
    assert path.exists()  # it is for the user to delete


def test_a_phase_that_goes_on_beyond_its_last_iteration_is_refused(states, tmp_path):
    build, path = BUILDERS["ksvd"], tmp_path / "run"
    found, _ = states(build)
    arrays = next(arrays for arrays in found.values() if "state/iteration" in arrays)
    write_arrays(path, arrays | {"state/iteration": np.array(6)})
    with pytest.raises(ValueError, match=r"state/iteration must be an integer from 0 to 5, got np.int64\(6\)"):
        build(checkpoint=path).fit(X)


@pytest.mark.parametrize("name", ["ksvd", "sparse ksvd", "online"])
def test_atoms_that_are_not_of_unit_norm_are_refused(name, states, tmp_path):
    build, path = BUILDERS[name], tmp_path / "run"
    found, _ = states(build)
    arrays, where = next(
        (a, key) for a in found.values() for key in a if re.match(r"state/(model|learner)/atoms", key)
    )
    atoms = arrays[where].copy()
    atoms[0, 0] = 1e300
    write_arrays(path, arrays | {where: atoms})
    with pytest.raises(ValueError, match="must have unit norms, got longer ones"):
        build(checkpoint=path).fit(X)


# -- random generators ----------------------------------------------------------------------------------


def altered(text, *place, value):
    state = json.loads(text)
    inner = state
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(state)


@pytest.mark.parametrize(
    ("generator", "place", "value"),
    [
        ("MT19937", ("state", "pos"), 625),
        ("MT19937", ("state", "pos"), -1),
        ("MT19937", ("state", "pos"), 1.5),
        ("MT19937", ("state", "key"), [1, 2, 3]),
        ("MT19937", ("state", "key", 5), "a"),
        ("MT19937", ("state", "key"), 3),
        ("MT19937", ("gauss",), float("nan")),
        ("MT19937", ("has_gauss",), 2),
        ("MT19937", ("bit_generator",), "PCG64"),
        ("MT19937", ("state",), {}),
        ("MT19937", ("more",), 1),
        ("Philox", ("buffer_pos",), 5),
    ],
)
def test_a_state_of_a_random_generator_is_checked(generator, place, value):
    random = np.random.RandomState(getattr(np.random, generator)(0))
    text = random_as_text(random)
    before = random.random_sample(3).tolist()
    with pytest.raises(ValueError, match="must be as in a state of this random generator"):
        restore_random(random, altered(text, *place, value=value))
    restore_random(random, text)
    assert random.random_sample(3).tolist() == before


def test_what_is_in_a_folder_of_an_array_is_refused(tmp_path):
    path = Path(tmp_path / "run")
    checkpoint = Checkpoint(path, {})
    checkpoint.write({"state": np.ones(2)})
    checkpoint.release()
    write_arrays(path, read_arrays(path) | {"state/more": np.ones(1)})
    with pytest.raises(ValueError, match="state/more must not be within an array; delete"):
        Checkpoint(path, {})
    assert not Path(f"{path}.lock").exists()
