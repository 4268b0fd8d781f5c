"""The gallery: its order, from a first matrix to signals, graphs, large data and networks, and links to Colab."""

import os

from sphinx.application import Sphinx

STORIES = (
    *("first_factorization", "slow_operator", "gaussian_process", "nonuniform_fourier"),
    *("fast_dictionary", "digits", "ecg", "denoising", "convolutional_atoms", "parts_of_digits"),
    *("graph_signals", "treelets", "few_samples", "larger_than_memory", "compress_transformer"),
)


class Order:
    """A key to sort scripts by; those that are not listed come last, by their names."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> tuple[int, str]:
        name = filename.removesuffix(".py")
        return (STORIES.index(name) if name in STORIES else len(STORIES), name)


def link_to_colab(app: Sphinx, name: str, source: list[str]) -> None:
    """Add a link to the notebook of an example, where that is published."""
    repository, version = os.environ.get("GITHUB_REPOSITORY"), os.environ.get("SITE_VERSION")
    if repository and version and name.startswith("gallery/") and name.removeprefix("gallery/") in STORIES:
        page = (
            f"https://colab.research.google.com/github/{repository}/blob/gh-pages/{version}/notebooks/{name}.ipynb"
        )
        source[0] += f"\n\n`Open in Colab <{page}>`__\n"
