"""What an experiment is to do: its config.toml, a preset of it, and the record that stands beside the tables."""

import json
import platform
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from . import PAGES
from .tables import write_text

META = "meta.json"
_PACKAGES = ("papilio", "numpy", "scipy", "numba")


def load(name: str) -> dict[str, Any]:
    """The config.toml of an experiment: ``title``, ``settings``, and ``presets`` that change some of them."""
    if name not in PAGES:
        raise ValueError(f"NAME must be one of {', '.join(PAGES)}, got {name!r}")
    return tomllib.loads(files(__package__).joinpath(name, "config.toml").read_text(encoding="utf-8"))


def settings_of(name: str, preset: str) -> dict[str, Any]:
    """The settings of an experiment, as ``preset`` has them."""
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
    """The record of a run: all that its numbers depend on, and nothing of the machine."""
    versions = {package: version(package) for package in _PACKAGES} | {"python": platform.python_version()}
    return {"experiment": name, "preset": preset, "settings": dict(settings), "versions": versions}


def claim_folder(folder: Path, meta: Mapping[str, Any]) -> None:
    """Make ``folder`` that of the run which ``meta`` describes.

    A folder of another run is refused, since its rows would be mixed with those of this one. The number of trials
    may differ, since each trial has its own seeds: the larger one is recorded.
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
    """In words, what two records do not share, trials aside."""
    old, new = _flat(found), _flat(wanted)
    return [
        f"{key.rpartition('.')[2]} is {old.get(key, 'not set')} there and {new.get(key, 'not set')} here"
        for key in sorted(old.keys() | new.keys())
        if key != "settings.trials" and old.get(key) != new.get(key)
    ]


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": deep for inner, deep in _flat(value).items()}
        else:
            flat[key] = value
    return flat
