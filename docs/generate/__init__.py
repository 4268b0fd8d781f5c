"""A Sphinx extension for those parts of the site that are made from the program, its measurements and results."""

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from . import (
    architecture,
    benchmarks,
    built_in,
    command_line,
    docstrings,
    gallery,
    links,
    methods,
    names,
    repository,
    results,
)

PAGES = (architecture, benchmarks, built_in, command_line, methods, repository, results)


def write(app: Sphinx, config: Config) -> None:
    """Write every page that is not kept in the repository; a page that stays the same is left alone."""
    docs = Path(app.srcdir)
    pages = {docs / path: text for module in PAGES for path, text in module.pages(docs.parent).items()}
    for folder in ("benchmarks", "results"):  # All pages of these folders are written here.
        for old in set((docs / folder).glob("*.md")) - set(pages):
            old.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def add_mathjax(app: Sphinx, exception: Exception | None) -> None:
    """Put MathJax beside the pages."""
    if exception is None and app.builder.format == "html":
        script = files("sphinx-mathjax-offline") / "static" / "mathjax" / "tex-svg-full.js"
        target = Path(app.outdir) / "_static" / "mathjax" / "tex-svg-full.js"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(script), target)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", write, priority=100)
    app.connect("source-read", links.point_into_the_site)
    app.connect("source-read", gallery.link_to_colab)
    app.connect("autodoc-process-docstring", docstrings.escape, priority=100)  # before numpydoc
    app.connect("autodoc-skip-member", names.skip_member)
    app.connect("autodoc-process-signature", names.signature)
    app.connect("missing-reference", names.resolve)
    app.connect("build-finished", add_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
