"""The order of the gallery: from a first matrix to signals, graphs, large data and networks."""

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
