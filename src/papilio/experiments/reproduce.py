"""One experiment from its configuration to its figures."""

from importlib import import_module
from pathlib import Path
from typing import Any

from . import PAGES
from .configuration import claim_folder, describe, settings_of
from .trials import Progress


def reproduce(
    name: str, folder: Path, *, preset: str = "paper", trials: int | None = None, jobs: int = 1, progress: Progress
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
    jobs : int
        Processes that share the trials.
    progress : callable
        Told how much is finished, of how much.
    """
    settings = settings_of(name, preset)
    if trials is not None:
        if "trials" not in settings:
            raise ValueError(f"trials must not be given for {name}: it has none")
        settings["trials"] = trials
    claim_folder(folder, describe(name, preset, settings))
    _module(name, "run").run(settings, folder, jobs, progress)
    return [path for page in PAGES[name] for path in _module(name, page).write(folder)]


def _module(name: str, part: str) -> Any:
    return import_module(f".{name}.{part}", __package__)
