"""What is public: the kept list of names with their parameters, which `make public-names` writes."""

import importlib.util
from difflib import unified_diff

from .pages import ROOT
from .test_site import module

HAS_TORCH = importlib.util.find_spec("torch") is not None
KEPT = (ROOT / "tests" / "public_names.txt").read_text(encoding="utf-8").splitlines()


def names():
    return module(ROOT / "scripts" / "public_names.py")


def test_public_names_and_their_parameters_are_those_of_the_kept_list():
    modules = names().papilio._MODULES + ("torch",) * HAS_TORCH
    kept = [line for line in KEPT if HAS_TORCH or not line.startswith("papilio.torch.")]
    changes = list(unified_diff(kept, names().lines(modules), "kept", "now", n=0, lineterm=""))
    assert not changes, "\n".join(["`make public-names` writes the list anew, if this is meant:", *changes])


def test_the_list_has_every_name_of_the_reference():
    listed = {line.partition("(")[0] for line in KEPT}
    public = names().papilio
    for home in (public, *(getattr(public, name) for name in public._MODULES)):
        for name in set(home.__all__) - {"__version__", *public._MODULES}:
            assert f"{home.__name__}.{name}" in listed or getattr(public, name, None) is getattr(home, name)


def test_a_changed_parameter_is_seen():
    def before(matrix, *, complexity=None): ...

    def after(matrix, *, max_error=None): ...

    assert names().signature(before) == "(matrix, *, complexity=None)"
    assert names().signature(after) != names().signature(before)


def test_classes_are_listed_with_what_is_theirs_and_commands_with_their_options():
    assert "papilio.SparseProduct.save(path)" in KEPT
    assert "papilio.SparseProduct.nnz" in KEPT
    assert not any(".KSVD.get_params" in line or ".set_params" in line for line in KEPT)  # scikit-learn's
    (command,) = [line for line in KEPT if line.startswith("$ papilio factorize")]
    assert "--max-error" in command
