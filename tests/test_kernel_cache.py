"""Compiled kernels in files: never stale, never another user's, and never an error."""

import ast
import errno
import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError

import papilio
from papilio.kernels import cache, turns
from papilio.runtime.lock import Lock

PACKAGE = Path(papilio.__file__).parent
TINY = """
import sys
from papilio.kernels.cache import folders, kernel

def double(x):
    return 2 * x

double = kernel()(double)
values = [float(word) if "." in word else int(word) for word in sys.argv[1:] or ["2.0"]]
right = all(double(value) == 2 * value for value in values)
hits = sum(double.stats.cache_hits.values())
found = [i for i, folder in enumerate(folders()) if folder.is_dir() and any(folder.iterdir())]
sys.stdout.write(f"{right} {hits} {found}")
"""


def tiny():
    """A kernel that has yet to be compiled or loaded, as in a new process."""

    def double(x):
        return 2 * x

    return cache.kernel()(double)


def is_loaded(value=2.0):
    """Whether a tiny kernel comes from a file; it gives the right result in any case."""
    kernel = tiny()
    assert kernel(value) == 2 * value
    return bool(kernel.stats.cache_hits)


@cache.kernel()
def scaled(x, count):
    return x * count


@cache.kernel()
def scaled_twice(x, count):
    return scaled(x, count) + scaled(x, 2)


def test_a_constant_in_a_call_is_compiled_as_a_variable_is(folder):
    assert scaled_twice(1.5, 3) == 7.5
    assert len(scaled.signatures) == 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The one place where compiled code may be kept."""
    monkeypatch.setattr(cache, "folders", lambda: iter([tmp_path / "kernels"]))
    return tmp_path / "kernels"


def copied(folder):
    """The sources of the package, without compiled code."""
    return shutil.copytree(PACKAGE, folder / "papilio", ignore=shutil.ignore_patterns("__pycache__"))


def run(code, *words, source=PACKAGE.parent, environment=None):
    """What a fresh interpreter prints."""
    ours = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=os.environ | ours | (environment or {}),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


# -- kept, and found again -------------------------------------------------------------------------------


def test_a_kernel_is_compiled_once_for_each_signature(folder):
    assert [is_loaded(2.0), is_loaded(2.0), is_loaded(2), is_loaded(2), is_loaded(2.0)] == [0, 1, 0, 1, 1]
    assert len(list(folder.iterdir())) == 2
    if hasattr(os, "geteuid"):
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700


def test_another_function_of_the_same_name_is_another_kernel(folder):
    def double(x):
        return x + x + 1

    assert not is_loaded()
    double.__qualname__ = tiny().py_func.__qualname__
    assert cache.kernel()(double)(2.0) == 5


def test_a_function_of_values_around_it_is_compiled_each_time(folder):
    def times(factor):
        return cache.kernel()(lambda x: factor * x)

    assert [times(2)(3.0), times(5)(3.0)] == [6, 15]
    assert not folder.exists()


def test_places_are_the_sources_the_users_cache_and_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(cache.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    parents = [path.parent for path in cache.folders()]
    assert parents == [
        PACKAGE / "kernels" / "__pycache__",
        tmp_path / "papilio",
        Path(tempfile.gettempdir()),
    ]
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [path.parent for path in cache.folders()][1] == tmp_path / ".cache" / "papilio"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for a user without a home
    assert [path.parent for path in cache.folders()] == [parents[0], parents[2]]


def test_numbas_own_setting_comes_before_all_places(tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "chosen")}
    assert run(TINY, environment=environment) == "True 0 [0]"
    assert run(TINY, environment=environment) == "True 1 [0]"
    assert [path.name.startswith("papilio-kernels-") for path in (tmp_path / "chosen").iterdir()] == [True]


# -- places that cannot be written to --------------------------------------------------------------------


def test_without_any_place_kernels_are_compiled_in_memory(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for places in ([], [tmp_path / "file" / "kernels"], [Path("/dev/null/kernels")], [tmp_path / ("x" * 300)]):
        monkeypatch.setattr(cache, "folders", lambda places=places: iter(places))
        assert not is_loaded()
        assert not is_loaded()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_sources_there_is_no_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "files", lambda package: tmp_path)
    assert cache._hash_of_sources() is None
    monkeypatch.setattr(cache, "files", lambda package: tmp_path / "nothing")
    assert cache._hash_of_sources() is None
    monkeypatch.setattr(cache, "_STAMP", None)
    assert list(cache.folders()) == []
    assert not is_loaded()
    assert not is_loaded()


def test_the_next_place_is_used_where_one_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    places = [tmp_path / "file" / "kernels", tmp_path / "second", tmp_path / "third"]
    monkeypatch.setattr(cache, "folders", lambda: iter(places))
    assert [is_loaded(), is_loaded()] == [False, True]
    assert places[1].exists()
    assert not places[2].exists()


# Without CAP_DAC_OVERRIDE, which PR_CAPBSET_DROP takes away, processes of root obey permissions as others do.
OBEY = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""


@pytest.mark.slow  # as it starts six processes
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

    def outcome(**environment):
        return run(OBEY, TINY, source=tmp_path, environment=environment)

    for expected in ("True 0 [1]", "True 1 [1]"):
        assert outcome(XDG_CACHE_HOME=str(cached)) == expected
    for expected in ("True 0 [2]", "True 1 [2]"):
        assert outcome(XDG_CACHE_HOME="", HOME=str(home), TMPDIR=str(cached)) == expected
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_full_disk_is_no_error(tmp_path):
    pytest.importorskip("resource")
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    source = copied(tmp_path).parent
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cached")}
    for _ in range(2):
        assert run(full + TINY, source=source, environment=environment) == "True 0 []"
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".bin", ".part")]


def test_a_write_that_fails_leaves_nothing_behind(folder, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cache.os, "replace", fail)
        assert not is_loaded()
    assert list(folder.iterdir()) == []
    assert [is_loaded(), is_loaded()] == [False, True]


def test_a_folder_that_disappears_is_made_again(folder):
    assert not is_loaded()
    shutil.rmtree(folder)
    assert [is_loaded(), is_loaded()] == [False, True]


def test_processes_that_compile_at_the_same_time_do_not_disturb_each_other(tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda words: run(TINY, *words, environment=environment), [("2.0", "2"), "2", "3"]))
    assert [each.split()[0] for each in found] == ["True"] * 3
    assert run(TINY, "2", "2.0", environment=environment) == "True 2 [0]"


# -- one process compiles, others wait -------------------------------------------------------------------


@pytest.fixture
def compiled(folder):
    """The file of a tiny kernel, its content, and the lock of whoever compiles it; the file is not there."""
    assert not is_loaded()
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.unlink()
    return path, content, folder / f"{path.name}.lock"


def test_a_kernel_that_another_process_compiles_is_awaited(compiled):
    path, content, lock = compiled
    held = Lock(lock, "a kernel")
    with ThreadPoolExecutor(1) as pool:
        loaded = pool.submit(is_loaded)
        with pytest.raises(TimeoutError):
            loaded.result(0.3)
        path.write_bytes(content)
        path.chmod(0o600)
        assert loaded.result(30)
    held.release()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("why", ["its process has failed", "it lasts too long", "its process was killed"])
def test_a_kernel_that_another_process_does_not_bring_is_compiled(compiled, why, monkeypatch):
    path, _, lock = compiled
    if why == "its process was killed":
        lock.touch()
        assert not is_loaded()
        return
    held = Lock(lock, "a kernel")
    monkeypatch.setattr(turns, "PATIENCE", 0.2 if why == "it lasts too long" else 60.0)
    with ThreadPoolExecutor(1) as pool:
        loaded = pool.submit(is_loaded)
        with pytest.raises(TimeoutError):
            loaded.result(0.1)
        if why == "its process has failed":
            held.release()
        assert not loaded.result(30)
    held.release()
    assert list(path.parent.iterdir()) == [path]


def test_an_error_of_the_compiler_ends_the_turn(folder):
    @cache.kernel()
    def wrong(x):
        return x.nothing

    for _ in range(2):
        with pytest.raises(TypingError):
            wrong(2.0)
    assert list(folder.iterdir()) == []


def test_without_locks_kernels_are_kept_all_the_same(folder, monkeypatch):
    def fail(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(turns, "Lock", fail)
    assert [is_loaded(), is_loaded()] == [False, True]


# -- stale code ------------------------------------------------------------------------------------------


def test_the_stamp_depends_on_every_source_of_the_kernels(tmp_path, monkeypatch):
    kernels = copied(tmp_path) / "kernels"
    monkeypatch.setattr(cache, "files", lambda package: kernels)
    assert cache._hash_of_sources() == cache._STAMP
    stamps = {cache._STAMP}
    sources = sorted(kernels.glob("*.py"))
    for path in sources:
        status = path.stat()
        path.write_bytes(path.read_bytes().replace(b"e", b"a", 1))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert path.stat().st_size == status.st_size
        stamps.add(cache._hash_of_sources())
    assert len(stamps) == len(sources) + 1 > 10


@pytest.mark.parametrize("what", ["papilio", "numba", "llvmlite", "setting"])
def test_the_stamp_depends_on_what_compiles(what, monkeypatch):
    if what == "papilio":
        monkeypatch.setattr(cache, "__version__", "0")
    elif what == "setting":
        monkeypatch.setattr(cache.config, "BOUNDSCHECK", 1)
    else:
        monkeypatch.setattr(getattr(cache, what), "__version__", "0")
    assert cache._hash_of_sources() != cache._STAMP


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


def test_code_of_sources_that_changed_meanwhile_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(cache, "_hash_of_sources", lambda: "another")
    assert not is_loaded()
    assert not folder.exists()


def test_only_the_newest_folders_of_earlier_versions_are_kept(folder, tmp_path):
    names = [f"{cache._prefix()}{i:02d}" for i in range(12)]
    for i, name in enumerate(names):
        (tmp_path / name).mkdir()
        (tmp_path / name / "some.bin").touch()
        os.utime(tmp_path / name, (i, i))
    (tmp_path / "another").mkdir()
    assert not is_loaded()
    assert {path.name for path in tmp_path.iterdir()} == {"another", "kernels", *names[-8:]}


# -- damaged and foreign files ---------------------------------------------------------------------------

DAMAGES = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "half of it": lambda content: content[: len(content) // 2],
    "all but the end": lambda content: content[:-1],
    "more than it": lambda content: content + b"!",
    "garbage": lambda content: b"\x80garbage" * 100,
    "another bit": lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:],
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_made_again(folder, name):
    assert not is_loaded()
    (path,) = folder.iterdir()
    path.write_bytes(DAMAGES[name](path.read_bytes()))
    assert [is_loaded(), is_loaded()] == [False, True]


def test_the_file_of_another_signature_is_not_taken_for_it(folder):
    assert not is_loaded(2.0)
    (real,) = folder.iterdir()
    assert not is_loaded(2)
    (whole,) = set(folder.iterdir()) - {real}
    shutil.copy(real, whole)
    assert [is_loaded(2), is_loaded(2), is_loaded(2.0)] == [False, True, True]


class Trap:
    """An object whose unpickling makes a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner")
@pytest.mark.parametrize("fault", ["none", "folder", "file", "link", "linked folder", "owner of file", "owner"])
def test_what_others_may_have_written_is_not_loaded(folder, tmp_path, fault):
    if fault.startswith("owner") and os.geteuid() != 0:
        pytest.skip("only root may give files away")
    assert not is_loaded()
    (path,) = folder.iterdir()
    content = pickle.dumps(Trap(tmp_path / "unpickled"))
    kernel = tiny()
    from numba.core.registry import cpu_target
    from numba.core.types import float64

    _, key = kernel._cache._file_of((float64,), cpu_target.target_context.codegen())
    path.write_bytes(hashlib.sha256(key + content).digest() + content)
    if fault == "folder":
        folder.chmod(0o777)
    elif fault == "file":
        path.chmod(0o666)
    elif fault == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    elif fault == "linked folder":
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    elif fault == "owner of file":
        os.chown(path, 65534, 65534)
    elif fault == "owner":
        os.chown(folder, 65534, 65534)
    assert not is_loaded()
    assert (tmp_path / "unpickled").exists() == (fault == "none")


def kernels_used_outside():
    """The compiled functions that other rooms import or take from a module of kernels: module and name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name == "kernels":
            continue
        tree = ast.parse(path.read_text())
        modules = {}  # of kernels, by the names they have here
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level or not node.module:
                continue
            if node.module == "kernels":
                modules |= {alias.asname or alias.name: alias.name for alias in node.names}
            elif node.module.startswith("kernels."):
                yield from ((node.module.partition(".")[2], alias.name) for alias in node.names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                yield modules[node.value.id], node.attr


def test_what_is_called_from_outside_is_not_compiled_in_each_process():
    found = set(kernels_used_outside())
    functions = {each: getattr(import_module(f"papilio.kernels.{each[0]}"), each[1]) for each in found}
    compiled = {each: function for each, function in functions.items() if isinstance(function, Dispatcher)}
    assert {("product", "apply_block"), ("descent", "iterate"), ("descent", "selected")} <= set(compiled)
    without = [each for each, function in compiled.items() if not isinstance(function._cache, cache.KernelCache)]
    assert without == []
