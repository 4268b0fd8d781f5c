"""Compiled kernels in files: never stale, never another user's, and never an error."""

import os
import pkgutil
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

import papilio
import papilio.kernels
from papilio.kernels import cache

PACKAGE = Path(papilio.__file__).parent
TINY = """
import sys
from papilio.kernels.cache import kernel

def double(x):
    return 2 * x

double = kernel()(double)
values = [float(word) if "." in word else int(word) for word in sys.argv[1:] or ["2.0"]]
right = all(double(value) == 2 * value for value in values)
sys.stdout.write(f"{right} {sum(double.stats.cache_hits.values())} {double.stats.cache_path or ''}")
"""
SOURCE = "from papilio.kernels.cache import kernel\n\n@kernel()\ndef double(x):\n    return 2 * x\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The one place where compiled code may be kept."""
    monkeypatch.setattr(cache, "_folder", lambda: tmp_path)
    return tmp_path


def is_loaded(value=2.0):
    """Whether a small kernel comes from a file, as in a new process; it gives the right result in any case."""

    def double(x):
        return 2 * x

    kernel = cache.kernel()(double)
    assert kernel(value) == 2 * value
    return bool(kernel.stats.cache_hits)


def files(folder, ending):
    return sorted(path for path in folder.rglob("*") if path.suffix == ending)


def copied(folder):
    """The sources of the package, without compiled code, and a file with a kernel."""
    package = shutil.copytree(PACKAGE, folder / "papilio", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kernels" / "double.py").write_text(SOURCE)
    return package


IN_PACKAGE = TINY.partition("def")[0].replace("cache import kernel", "double import double")
IN_PACKAGE += TINY.partition("kernel()(double)\n")[2]


def run(code, *words, source=PACKAGE.parent, environment=None):
    """What a fresh interpreter prints."""
    ours = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=os.environ | ours | (environment or {}),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_a_kernel_is_compiled_once_for_each_signature(folder):
    assert [is_loaded(2.0), is_loaded(2.0), is_loaded(2), is_loaded(2), is_loaded(2.0)] == [0, 1, 0, 1, 1]


def test_all_kernels_are_kept():
    for module in pkgutil.iter_modules(papilio.kernels.__path__):
        for name, each in vars(import_module(f"papilio.kernels.{module.name}")).items():
            if isinstance(each, Dispatcher) and "inline" not in each.targetoptions and name[0] != "_":
                assert isinstance(each._cache, cache.KernelCache), f"{module.name}.{name}"


# -- places ----------------------------------------------------------------------------------------------


def test_numbas_own_setting_comes_before_all_places(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path / "chosen"))
    assert list(cache._places()) == [tmp_path / "chosen"]
    found = cache._folder.__wrapped__()
    assert found.parent == tmp_path / "chosen"
    if hasattr(os, "geteuid"):
        assert found.stat().st_mode & 0o777 == 0o700


# Without CAP_DAC_OVERRIDE, which PR_CAPBSET_DROP takes away, processes of root obey permissions as others do.
OBEY = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""


@pytest.mark.slow  # It starts eight processes.
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the test knows the permissions of Linux")
def test_an_installation_that_is_not_writable_is_enough(tmp_path):
    package, home, cached = copied(tmp_path), tmp_path / "home", tmp_path / "cached"
    home.mkdir()
    cached.mkdir()
    for path in (home, package, *(path for path in package.rglob("*") if path.is_dir())):
        path.chmod(0o555)
    try_it = f"import os, sys; sys.stdout.write(str(os.access({str(package)!r}, os.W_OK)))"
    if run(OBEY, try_it) != "False":
        pytest.skip("this process may write everywhere")

    places = {
        cached / "papilio": {"XDG_CACHE_HOME": str(cached)},
        cached: {"XDG_CACHE_HOME": "", "HOME": str(home), "TMPDIR": str(cached)},
    }
    for place, environment in places.items():
        for hits in (0, 1):
            found = run(OBEY, IN_PACKAGE, source=tmp_path, environment=environment).split()
            assert found[:2] == ["True", str(hits)]
            assert Path(found[2]).parent.parent == place
    nowhere = {"XDG_CACHE_HOME": str(home), "HOME": str(home), "NUMBA_CACHE_DIR": str(home)}
    assert run(OBEY, IN_PACKAGE, source=tmp_path, environment=nowhere) == "True 0 "
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner")
@pytest.mark.parametrize("fault", ["mode", "link", "owner"])
def test_a_folder_that_others_may_write_into_is_not_used(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(cache, "_places", lambda: iter([tmp_path / "place"]))
    folder = cache._folder.__wrapped__()
    assert folder is not None
    if fault == "mode":
        folder.chmod(0o777)
    elif fault == "link":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif os.geteuid() != 0:
        pytest.skip("only root may give files away")
    else:
        os.chown(folder, 65534, 65534)
    assert cache._folder.__wrapped__() is None


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80", b"\x80garbage" * 100, "half"])
def test_a_damaged_file_is_made_again(folder, ending, content):
    assert not is_loaded()
    (path,) = files(folder, ending)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content == "half" else content)
    assert not is_loaded()
    assert any([is_loaded(), is_loaded()])  # the index may have to be made first


@pytest.mark.slow
def test_an_edit_of_one_file_changes_the_kernels_of_another(tmp_path):
    package = copied(tmp_path)
    (package / "kernels" / "outer.py").write_text(
        "from .cache import kernel\nfrom .inner import factor\n\n"
        "@kernel()\ndef scaled(x):\n    return factor() * x\n"
    )
    code = "import sys; from papilio.kernels.outer import scaled; sys.stdout.write(f'{scaled(1.0)}"
    code += " {len(scaled.stats.cache_hits)}')"
    inner = "from .cache import kernel\n\n@kernel()\ndef factor():\n    return {}\n"
    for factor, hits in ((2, 0), (3, 0), (2, 1)):
        (package / "kernels" / "inner.py").write_text(inner.format(factor))
        assert run(code, source=tmp_path) == f"{factor}.0 {hits}"
