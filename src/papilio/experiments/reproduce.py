"""One experiment, from its configuration to its figures."""

import json
import os
import platform
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..runtime.threads import get_num_threads
from ..validation import as_integer
from . import PAGES
from .tables import META, write_text
from .trials import OnProgress

_PACKAGES = ("papilio", "numpy", "scipy", "numba")
_MAY_DIFFER = ("settings.trials", "machine", "date")  # between the parts of a run that was resumed


def reproduce(
    name: str,
    folder: Path,
    *,
    preset: str = "paper",
    trials: int | None = None,
    jobs: int | None = None,
    progress: OnProgress,
) -> list[Path]:
    """Run an experiment, draw its figures and write its pages into ``folder``; returns their paths.

    An unfinished run with the same settings in ``folder`` is resumed. ``preset`` is one of those in config.toml,
    which also gives the number of ``trials`` if there are any; they share ``jobs`` processes, by default one per
    core. ``progress`` is called with the number of parts that are done and of all parts.
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
    pages = [_module(name, page) for page in PAGES[name]]  # now, not after hours of work
    claim_folder(folder, describe(name, preset, settings))
    run(settings, folder, get_num_threads() if jobs is None else jobs, progress)
    return [path for page in pages for path in page.write(folder)]


def _module(name: str, part: str) -> Any:
    return import_module(f".{name}.{part}", __package__)


def load(name: str) -> dict[str, Any]:
    """The config.toml of an experiment: ``title``, ``settings``, and ``presets`` that change some of them."""
    if name not in PAGES:
        raise ValueError(f"NAME must be one of {', '.join(PAGES)}, got {name!r}")
    return tomllib.loads(files(__package__).joinpath(name, "config.toml").read_text(encoding="utf-8"))


def settings_of(name: str, preset: str) -> dict[str, Any]:
    """The settings of an experiment with the changes of ``preset``."""
    config = load(name)
    presets = config["presets"]
    if preset not in presets:
        raise ValueError(f"preset must be one of {', '.join(presets)} for {name}, got {preset!r}")
    changes = {key: value for key, value in presets[preset].items() if key != "about"}
    unknown = changes.keys() - config["settings"].keys()
    if unknown:
        raise ValueError(f"preset {preset!r} of {name} must change known settings only, got {sorted(unknown)}")
    return {**config["settings"], **changes}


def describe(name: str, preset: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run: everything that its numbers depend on, the kind of machine, and the day."""
    versions = {package: version(package) for package in _PACKAGES} | {"python": platform.python_version()}
    return {
        "experiment": name,
        "preset": preset,
        "settings": dict(settings),
        "versions": versions,
        "machine": machine(),
        "date": date.today().isoformat(),
    }


def machine() -> str:
    """The processor and the number of cores that this process may use."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass  # not on Linux
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores"


def claim_folder(folder: Path, meta: Mapping[str, Any]) -> None:
    """Reserve ``folder`` for the run that ``meta`` describes.

    A folder of another run is refused: rows of both would be mixed. The number of trials may differ, because
    each trial has its own seeds; the larger one is recorded. So may the machine and the day, of which the last
    are recorded.
    """
    path = folder / META
    settings = dict(meta["settings"])
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError(f"{path} is damaged; choose another --output, or remove it")
        for what in _differences(found, meta):
            raise ValueError(f"{folder} holds another run: {what}; choose another --output, or remove it")
        if "trials" in settings:
            settings["trials"] = max(settings["trials"], found["settings"]["trials"])
    elif folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds files of something else; choose another --output")
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**meta, "settings": settings}, indent=2, ensure_ascii=False) + "\n")


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """The differences between two records in words, except for what may differ."""
    old, new = dict(_flat(found)), dict(_flat(wanted))
    return [
        f"{key.rpartition('.')[2]} is {old.get(key, 'not set')} there and {new.get(key, 'not set')} here"
        for key in sorted(old.keys() | new.keys())
        if key not in _MAY_DIFFER and old.get(key) != new.get(key)
    ]


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
