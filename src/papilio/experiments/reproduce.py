"""One experiment from its configuration to its figures."""

from importlib import import_module
from pathlib import Path
from typing import Any

from ..runtime.threads import get_num_threads
from ..validation import as_integer
from . import PAGES
from .configuration import claim_folder, describe, settings_of
from .trials import Progress


def reproduce(
    name: str,
    folder: Path,
    *,
    preset: str = "paper",
    trials: int | None = None,
    jobs: int | None = None,
    progress: Progress,
) -> list[Path]:
    """Run an experiment, draw its figures and write its pages into ``folder``; returns their paths.

    Parameters
    ----------
    name : str
        One of `PAGES`.
    folder : Path
        Is made; if it holds an unfinished run of the same settings, this goes on.
    preset : str
        One of those in the config.toml.
    trials : int, optional
        Instead of the preset's number, in experiments that have trials.
    jobs : int, optional
        Processes that share the trials; one a core by default.
    progress : callable
        Told how much is finished, of how much.
    """
    settings = settings_of(name, preset)
    for option, value in (("trials", trials), ("jobs", jobs)):
        if value is not None:
            as_integer(option, value, 1)
            if "trials" not in settings:
                raise ValueError(f"{option} must not be given for {name}, which has no trials, got {value}")
    if trials is not None:
        settings["trials"] = trials
    run = _module(name, "run").run
    pages = [_module(name, page) for page in PAGES[name]]  # now, lest something is missing after hours of work
    claim_folder(folder, describe(name, preset, settings))
    run(settings, folder, get_num_threads() if jobs is None else jobs, progress)
    return [path for page in pages for path in page.write(folder)]


def _module(name: str, part: str) -> Any:
    return import_module(f".{name}.{part}", __package__)
