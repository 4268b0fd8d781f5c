"""Render recipe/recipe.yaml as rattler-build does, and compare it with pyproject.toml: ``make check-release``."""

import sys
import tomllib
from pathlib import Path

from rattler_build import Stage0Recipe

import papilio

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    rendered = Stage0Recipe.from_file(ROOT / "recipe" / "recipe.yaml").render()
    (recipe,) = [variant.recipe.to_dict() for variant in rendered]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    command = project["optional-dependencies"]["cli"]  # with figures
    needed = [*project["dependencies"], *(each.replace("matplotlib", "matplotlib-base") for each in command)]
    wanted = {f"python {project['requires-python']}", *(each.replace(">=", " >=") for each in needed)}
    expected = {"version": papilio.__version__, "run": sorted(wanted)}
    found = {"version": recipe["package"]["version"], "run": sorted(recipe["requirements"]["run"])}
    sys.stdout.write(f"recipe: {found}\n")
    if found != expected:
        sys.exit(f"pyproject.toml and papilio.__version__ want {expected}")


if __name__ == "__main__":
    main()
