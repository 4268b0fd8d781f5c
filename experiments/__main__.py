"""One experiment, from settings to figures: ``make reproduce NAME=…`` calls ``python -m experiments NAME``."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from papilio.cli.console import ProgressBar, Terminal

from . import harness


def main() -> int:
    """Run an experiment, or list them, and return the exit code."""
    asked = _arguments()
    if asked.status:
        return _show_status()
    if asked.name is None:
        _list_experiments()
        return 0
    folder = asked.output or Path(f"reproduce-{asked.name}" + f"-{asked.preset}" * (asked.preset != "paper"))
    options = {"preset": asked.preset, "trials": asked.trials, "jobs": asked.jobs}
    try:
        if asked.redraw:
            return _show(harness.load(asked.name).write(folder))
        with ProgressBar(Terminal(), asked.name) as bar:
            if asked.check:
                return _checked(folder, harness.check(folder, jobs=asked.jobs, progress=_Share(bar)))
            pages = harness.reproduce(asked.name, folder, progress=_Expectation(asked, folder, bar), **options)
    except harness.Stopped as stop:
        return _ended(f"stopped; {stop}. To resume: {_again(asked, folder)}", 130)
    except KeyboardInterrupt:
        return _ended("stopped before anything new was kept; run the same command again", 130)
    except ValueError as error:
        return _ended(str(error), 2)
    except OSError as error:
        return _ended(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except (RuntimeError, ImportError) as error:
        return _ended(str(error), 1)
    return _show(pages)


def _arguments() -> argparse.Namespace:
    times = "\n".join(
        f"  {name:<10} {preset:<8} {_duration(each.minutes)}"
        for name in harness.names()
        for preset, each in harness.load(name).PRESETS.items()
    )
    parser = argparse.ArgumentParser(
        "make reproduce",
        description="Run one of the experiments, or list them.",
        epilog=f"Times of whole runs on two cores:\n{times}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of " + ", ".join(harness.names()))
    parser.add_argument("--preset", default="paper", help="paper, tiny, or others that the list shows")
    parser.add_argument("--trials", type=int, help="number of trials; by default that of the preset")
    parser.add_argument("--jobs", type=int, help="number of processes for the trials; by default one per core")
    parser.add_argument("--output", type=Path, help="folder for tables and figures; reproduce-NAME by default")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--check",
        action="store_true",
        help="make a sample of the rows in --output again, and record if they agree",
    )
    instead.add_argument(
        "--redraw", action="store_true", help="only draw the figures and write the pages of the tables in --output"
    )
    instead.add_argument(
        "--status",
        action="store_true",
        help="which kept results are of the present code; writes results/README.md",
    )
    return parser.parse_args()


class _Expectation:
    """Shows progress; before that, what is left to do and about how long it will take."""

    def __init__(self, asked: argparse.Namespace, folder: Path, bar: ProgressBar) -> None:
        self._asked, self._folder, self._bar, self._is_said = asked, folder, bar, False

    def __call__(self, done: int, total: int) -> None:
        if not self._is_said:
            self._is_said = True
            asked = self._asked
            minutes = harness.minutes_of(asked.name, asked.preset, asked.trials, asked.jobs)
            kept = f"{done} of {total} parts are done already; " if done else ""
            left = _duration(minutes * (total - done) / max(total, 1))
            sys.stderr.write(f"{asked.name}, preset {asked.preset}: {kept}this will take {left}. ")
            sys.stderr.write(f"Results: {self._folder}\n")
        self._bar.advance(done / total if total else 1.0, f"{done} of {total}")


class _Share:
    """Shows progress alone."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar

    def __call__(self, done: int, total: int) -> None:
        self._bar.advance(done / total if total else 1.0, f"{done} of {total}")


def _checked(folder: Path, different: list[str]) -> int:
    """Report what a check has found."""
    for line in different[:10]:
        sys.stderr.write(f"{line}\n")
    words = (
        f"{len(different)} differences"
        if different
        else "the present code makes the same rows, and so is recorded"
    )
    sys.stdout.write(f"{folder}: {words}\n")
    return 1 if different else 0


def _show_status() -> int:
    for folder, meta, current in harness.status():
        word = harness.CURRENT if current else harness.OLDER
        sys.stdout.write(f"{word:<8} {meta['date']}  {folder}\n")
    sys.stdout.write(f"{harness.write_overview()}\n")
    return 0


def _duration(minutes: float) -> str:
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:.1f} hours"


def _again(asked: argparse.Namespace, folder: Path) -> str:
    words = ["--preset", asked.preset, "--output", str(folder)]
    words += [] if asked.trials is None else ["--trials", str(asked.trials)]
    return shlex.join(["make", "reproduce", f"NAME={asked.name}", f"ARGS={shlex.join(words)}"])


def _ended(message: str, code: int) -> int:
    sys.stderr.write(f"reproduce: {' '.join(message.split())}\n")
    return code


def _list_experiments() -> None:
    for name in harness.names():
        experiment: Any = harness.load(name)
        sys.stdout.write(f"{name:<10}{experiment.TITLE}\n")
        for preset, each in experiment.PRESETS.items():
            sys.stdout.write(f"{'':<10}--preset {preset:<9}{each.about}: {_duration(each.minutes)}\n")
    sys.stdout.write("\nRun one of them: make reproduce NAME=figure3 ARGS='--preset tiny'\n")


def _show(pages: list[Path]) -> int:
    """Print the first part of each page, and the paths of all files."""
    for page in pages:
        if page.suffix == ".md":
            sys.stdout.write(page.read_text(encoding="utf-8").partition("\n## ")[0] + "\n")
    for path in [*sorted(pages[0].parent.glob("*.csv")), *pages]:
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
