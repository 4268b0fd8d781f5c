"""Public names, how docstrings call them, and where names of other packages are documented."""

import importlib
import inspect
from functools import cache
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import papilio

PUBLIC_MODULES = (*papilio._MODULES, "torch")
_NUMPY = "https://numpy.org/doc/stable/reference"
_SCIPY = "https://docs.scipy.org/doc/scipy/reference/generated"
_MATPLOTLIB = "https://matplotlib.org/stable/api/_as_gen"
_SPARSE = f"{_SCIPY}/scipy.sparse"
# Links that a reader may follow; nothing is fetched when the site is built or opened.
_ELSEWHERE = {
    "numpy.ndarray": f"{_NUMPY}/generated/numpy.ndarray.html",
    "numpy.random.Generator": f"{_NUMPY}/random/generator.html",
    "scipy.sparse.csr_array": f"{_SPARSE}.csr_array.html",
    "scipy.sparse.csc_array": f"{_SPARSE}.csc_array.html",
    "scipy.sparse.linalg.LinearOperator": f"{_SPARSE}.linalg.LinearOperator.html",
    "matplotlib.figure.Figure": f"{_MATPLOTLIB}/matplotlib.figure.Figure.html",
    "matplotlib.axes.Axes": f"{_MATPLOTLIB}/matplotlib.axes.Axes.html",
    "torch.Tensor": "https://docs.pytorch.org/docs/stable/tensors.html",
    "torch.nn.Linear": "https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html",
    "torch.nn.Module": "https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html",
}
ELSEWHERE = _ELSEWHERE | {name.rpartition(".")[2]: url for name, url in _ELSEWHERE.items() if "torch" not in name}


@cache
def public() -> dict[str, str]:
    """The full name of each public function and class, by the shorter names that docstrings use."""
    found = {}
    for module in PUBLIC_MODULES:
        for name in importlib.import_module(f"papilio.{module}").__all__:
            found.setdefault(name, f"papilio.{module}.{name}")
            found[f"{module}.{name}"] = f"papilio.{module}.{name}"
    top = [name for name in papilio.__all__ if callable(getattr(papilio, name))]
    same = {id(getattr(papilio, name)): f"papilio.{name}" for name in top}
    for module in papilio._MODULES:
        room = getattr(papilio, module)
        for name in room.__all__:
            # Names that are at the top, too, are documented there.
            found[name] = found[f"{module}.{name}"] = same.get(id(getattr(room, name)), found[name])
    return found | {name: f"papilio.{name}" for name in top}


def aliases() -> dict[str, str]:
    """What becomes a link in the types of parameters."""
    ours = {name: full for name, full in public().items() if name[0].isupper()}  # words such as "matrix" are none
    return {**{name: name for name in ELSEWHERE}, **ours}


def skip_member(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what papilio inherits from others, and the fields of tuples, which the docstring describes."""
    function = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
    ours = (getattr(function, "__module__", None) or "").startswith("papilio")
    return None if ours else True


def signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, written: str, result: str
) -> tuple[str, str] | None:
    """The parameters of a class whose base hides them behind ``__new__(*args, **kwargs)``."""
    if what != "class" or not (written or "").startswith("(*args"):
        return None
    parameters = list(inspect.signature(thing.__init__).parameters.values())[1:]
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(plain)), ""


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> Any:
    """Link what Python's domain did not find: papilio's own by short names, some of others to their sites.

    Other words in single backticks, such as parameters, stay as they are. A name that starts with ``papilio`` and
    does not exist is left to Sphinx, which warns.
    """
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or target.startswith("papilio"):
        return None
    if target in ELSEWHERE:
        return nodes.reference("", "", content, internal=False, refuri=ELSEWHERE[target])
    class_name, _, member = target.partition(".")
    full = public().get(target) or (f"{public()[class_name]}.{member}" if class_name in public() else None)
    if full:
        domain = env.get_domain("py")
        found = domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, content)
        if found is not None:
            return found
    return content
