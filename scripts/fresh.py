"""Try papilio in fresh environments, each in a temporary folder: ``python scripts/fresh.py wheel 3.11 3.13``.

    wheel    dist/*.whl with the extras plot and cli; the README's examples and the command run elsewhere
    sdist    dist/*.tar.gz, unpacked; its fast tests run there
    lowest   the lowest versions that pyproject.toml allows; the fast tests (on 3.11 if no version is named)
    tests    an editable installation of this clone; the fast tests

Without versions, each Python from 3.11 to 3.13 is tried that is found on the PATH, by the launcher of Windows, or
among those of pyenv. What follows ``--`` is passed to pytest.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPPORTED = ("3.11", "3.12", "3.13")
IN_PARALLEL = ("--quiet", "--numprocesses", "auto", "--maxprocesses", "4", "--dist", "worksteal")
# Nothing of the surrounding environment is found; bytecode is kept, since tests start many processes.
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
OUTSIDE |= {"PYTHONUTF8": "1", "MPLBACKEND": "agg"}


def main() -> None:
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    what, *versions = words[:end] or [""]
    options = [*IN_PARALLEL, *words[end + 1 :]]
    trials = {"wheel": wheel, "sdist": sdist, "lowest": lowest, "tests": tests}
    if what not in trials:
        sys.exit(__doc__)
    outcomes = {
        version: outcome_of(trials[what], version, options, is_wanted=bool(versions))
        for version in versions or (SUPPORTED[:1] if what == "lowest" else SUPPORTED)
    }
    say("", *(f"{what}, Python {version}: {outcome}" for version, outcome in outcomes.items()))
    sys.exit(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


def outcome_of(trial, version: str, options: list[str], is_wanted: bool) -> str:
    python = find_python(version)
    if python is None:
        return "FAILED, not found" if is_wanted else "skipped, not found"
    with tempfile.TemporaryDirectory(prefix="papilio-", ignore_cleanup_errors=True) as folder:
        try:
            trial(environment(python, Path(folder)), Path(folder), options)
        except subprocess.CalledProcessError as error:
            return f"FAILED: {' '.join(error.cmd[1:5])} …"
    return "passed"


# -- trials ----------------------------------------------------------------------------------------------


def wheel(python: Path, folder: Path, options: list[str]) -> None:
    run(python, "-m", "pip", "install", "--quiet", f"{latest('*.whl')}[plot,cli]")
    run(python, "-m", "pip", "check")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    (folder / "examples.py").write_text("\n".join(examples), encoding="utf-8")
    say(f"# {len(examples)} examples of the README")
    run(python, "examples.py", cwd=folder)
    run(python, "-m", "papilio", "factorize", "hadamard:32", "--output", "op.npz", cwd=folder)
    check = "import papilio; assert 'site-packages' in papilio.__file__; print(papilio.__version__)"
    run(python, "-c", f"{check}; print(papilio.load('op.npz'))", cwd=folder)


def sdist(python: Path, folder: Path, options: list[str]) -> None:
    with tarfile.open(latest("*.tar.gz")) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.glob("papilio-*")
    test(python, source, options)


def lowest(python: Path, folder: Path, options: list[str]) -> None:
    run(python, "-m", "pip", "install", "--quiet", "uv")
    install = (python, "-m", "uv", "pip", "install", "--quiet", "--python", python)
    run(*install, "--resolution", "lowest-direct", "--requirements", ROOT / "pyproject.toml", "--extra", "dev")
    run(*install, "--no-deps", "--editable", ROOT)
    # Old packages warn of what newer ones below them deprecate, such as matplotlib 3.8 with pyparsing 3.3.
    run(python, "-m", "pytest", *options, "-W", "ignore::DeprecationWarning")


def tests(python: Path, folder: Path, options: list[str]) -> None:
    test(python, ROOT, options)


def test(python: Path, source: Path, options: list[str]) -> None:
    """Run the fast tests of a source tree."""
    run(python, "-m", "pip", "install", "--quiet", "--editable", f"{source}[dev]")
    run(python, "-m", "pytest", *options, cwd=source)


# -- what they share -------------------------------------------------------------------------------------


def find_python(version: str) -> str | None:
    """A Python of this version; not every candidate works, such as a shim of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    others = sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python")))
    code = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    for candidate in ([sys.executable], [f"python{version}"], ["py", f"-{version}"], *([path] for path in others)):
        try:
            output = subprocess.run([*candidate, "-c", code], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        found, _, path = output.strip().partition(" ")
        if found == version:
            return path
    return None


def environment(python: str, folder: Path) -> Path:
    """The Python of a new environment."""
    run(python, "-m", "venv", folder / "environment")
    return folder / "environment" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def latest(pattern: str) -> Path:
    """The newest file of this kind in dist/."""
    found = sorted((ROOT / "dist").glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit(f"dist/ has no {pattern}: `make dist` builds it")
    return found[-1]


def run(*command: object, cwd: Path = ROOT) -> None:
    words = [str(word) for word in command]
    say("$ " + " ".join(words))
    subprocess.run(words, check=True, cwd=cwd, env=OUTSIDE)


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
