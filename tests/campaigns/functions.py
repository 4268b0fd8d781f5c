"""Public functions, with arguments that they accept."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import papilio as pp

from .call import Call, gaussian, real, require_shape, shape_of, stopping
from .case import Failed

Rng = np.random.Generator


def _approximates(name: str) -> Any:
    """The result, or each of its points, has the shape of the matrix called ``name``."""

    def promise(result: Any, **arguments: Any) -> None:
        shape = shape_of(arguments[name])
        if shape is not None:
            require_shape(result.operator.shape, shape)
        if not 0 <= result.error < np.inf:
            raise Failed(f"the error of a result is {result.error}")

    return promise


def _learned(result: Any, signals: Any, **arguments: Any) -> None:
    shape = shape_of(signals)
    if shape is not None and len(shape) == 2:
        require_shape(result.dictionary.shape, (shape[0], None))
        require_shape(result.codes.shape, (result.dictionary.shape[1], shape[1]))


def _coded(result: Any, dictionary: Any, signals: Any, **arguments: Any) -> None:
    atoms, count = shape_of(dictionary), shape_of(signals)
    if atoms is not None and count is not None:
        require_shape(result.shape, (atoms[1], 1 if len(count) == 1 else count[1]))


def _constraints(rng: Rng) -> list[Any]:
    return [pp.constraints.SparseRows((6, 7), 2), pp.constraints.Sparse((7, 5), 20)]


def chosen(rng: Rng, options: Mapping[str, Any]) -> dict[str, Any]:
    """Some of the options."""
    return {name: value for name, value in options.items() if rng.integers(2)}


def _factorize(rng: Rng) -> dict[str, Any]:
    target = [{}, {"complexity": 0.6}, {"max_error": 0.3}, {"n_factors": 2}, {"speedup": 1.5}][rng.integers(5)]
    method = ["auto", "thresholding", "low_rank", "hierarchical", "butterfly", "kronecker"][rng.integers(6)]
    more = {"vectors": 16, "block": (2, 2), "random_state": 0, "progress": False}
    matrix = gaussian(rng, 8, 8) if rng.integers(2) else gaussian(rng, 6, 5)
    common = {"M": matrix, "method": method, "time_budget": 1.0, "callback": stopping(200)}
    return common | target | chosen(rng, more)


def _learner(rng: Rng, **more: Any) -> dict[str, Any]:
    common = {"signals": gaussian(rng, 6, 40), "n_components": 8, "n_nonzero_coefs": 2}
    options = {"max_iter": 3, "tol": 1e-3, "random_state": 0}
    return common | more | options | {"callback": stopping()}


def _image(rng: Rng) -> np.ndarray:
    return 255 * rng.random((14, 13) if rng.integers(2) else (12, 12, 3)).astype(
        [np.float64, np.float32][rng.integers(2)]
    )


def product(rng: Rng) -> pp.SparseProduct:
    left, right = (gaussian(rng, *shape) * (rng.random(shape) < 0.6) for shape in ((6, 7), (7, 5)))
    return pp.SparseProduct([left, right], 0.5)


FUNCTIONS: dict[str, Call] = {
    "omp": Call(
        lambda rng: (
            {
                "dictionary": gaussian(rng, 6, 9) if rng.integers(2) else product(rng),
                "signals": gaussian(rng, 6, 4),
            }
            | chosen(rng, {"n_nonzero_coefs": 2, "tol": 0.1, "progress": False})
        ),
        pp.omp,
        _coded,
    ),
    "omp, positive": Call(
        lambda rng: (
            {"dictionary": real(rng, 6, 9), "signals": real(rng, 6, 4), "positive": True}
            | chosen(rng, {"n_nonzero_coefs": 2, "tol": 0.1})
        ),
        pp.omp,
        _coded,
    ),
    "palm": Call(
        lambda rng: (
            {"target": gaussian(rng, 6, 5), "constraints": _constraints(rng), "max_iter": 5, "tol": 1e-6}
            | {"callback": stopping()}
            | chosen(
                rng,
                {
                    "init": [gaussian(rng, 6, 7), gaussian(rng, 7, 5)],
                    "scale": 2.0,
                    "order": "left_to_right",
                    "inertia": True,
                },
            )
        ),
        pp.palm,
        _approximates("target"),
    ),
    "hierarchical": Call(
        lambda rng: (
            {"target": gaussian(rng, 8, 8), "schedule": pp.Schedule.hadamard(8), "max_iter": 4}
            | {"tol": 1e-6, "callback": stopping()}
            | chosen(rng, {"order": "left_to_right", "polish": False, "inertia": True})
        ),
        pp.hierarchical,
        _approximates("target"),
    ),
    "factorize": Call(_factorize, pp.factorize, _approximates("M")),
    "butterfly": Call(
        lambda rng: (
            {"M": pp.transforms.hadamard(8).toarray()[rng.permutation(8)], "random_state": 0}
            | chosen(rng, {"supports": [np.abs(f.toarray()) > 0 for f in pp.transforms.hadamard(8).factors]})
        ),
        pp.butterfly,
        _approximates("M"),
    ),
    "tradeoff": Call(
        lambda rng: (
            {"M": gaussian(rng, 6, 5), "complexities": [0.6, 0.8], "random_state": 0}
            | {"callback": stopping(200)}
            | chosen(rng, {"n_factors": 2})
        ),
        pp.tradeoff,
    ),
    "dictionary_tradeoff": Call(
        lambda rng: (
            {"signals": gaussian(rng, 6, 40), "n_components": 8, "n_nonzero_coefs": 2, "random_state": 0}
            | {"complexities": [0.8], "callback": stopping(60)}
        ),
        pp.dictionary.dictionary_tradeoff,
    ),
    "ksvd": Call(
        lambda rng: _learner(rng, **chosen(rng, {"init": gaussian(rng, 6, 8)})), pp.dictionary.ksvd, _learned
    ),
    "online_dictionary": Call(
        lambda rng: _learner(rng, **chosen(rng, {"init": gaussian(rng, 6, 8), "batch_size": 8, "memory": 50})),
        pp.dictionary.online_dictionary,
        _learned,
    ),
    "sparse_ksvd": Call(lambda rng: _learner(rng, base=np.eye(6), k=2), pp.dictionary.sparse_ksvd, _learned),
    "fast_dictionary": Call(
        lambda rng: (
            {"signals": gaussian(rng, 8, 50), "schedule": pp.Schedule.rectangular((8, 12), 3, 3, 0.7)}
            | {"n_nonzero_coefs": 2, "max_iter": 3, "random_state": 0, "callback": stopping()}
            | chosen(rng, {"init": gaussian(rng, 8, 12), "refine": False, "tol": 1e-3})
        ),
        pp.dictionary.fast_dictionary,
        _learned,
    ),
    "Moments": Call(
        lambda rng: {"cross": gaussian(rng, 6, 5)} | chosen(rng, {"gram": np.eye(5), "energy": 100.0}), pp.Moments
    ),
    "Moments.of": Call(lambda rng: {"signals": gaussian(rng, 6, 9), "codes": gaussian(rng, 5, 9)}, pp.Moments.of),
    "palm of moments": Call(
        lambda rng: {"cross": gaussian(rng, 6, 5), "gram": 2 * np.eye(5), "energy": 100.0},
        lambda **given: pp.palm(pp.Moments(**given), _constraints(np.random.default_rng(0)), max_iter=3),
    ),
    "Schedule.hadamard": Call(lambda rng: {"n": 8}, pp.Schedule.hadamard),
    "Schedule.paper": Call(lambda rng: {"d": 8, "Q": 3, "p": 2.0, "P": 32.0}, pp.Schedule.paper),
    "Schedule.with_complexity": Call(
        lambda rng: {"shape": (8, 12), "complexity": 0.5} | chosen(rng, {"n_factors": 3, "block": (2, 2)}),
        pp.Schedule.with_complexity,
    ),
    "Schedule.rectangular": Call(
        lambda rng: {"shape": (8, 12), "n_factors": 3, "k": 3, "decay": 0.7}, pp.Schedule.rectangular
    ),
    "metrics.rmse": Call(
        lambda rng: {
            "signals": gaussian(rng, 6, 9),
            "dictionary": gaussian(rng, 6, 5),
            "codes": gaussian(rng, 5, 9),
        },
        pp.metrics.rmse,
    ),
    "metrics.recovery_rate": Call(
        lambda rng: {"dictionary": gaussian(rng, 6, 5), "reference": gaussian(rng, 6, 5), "threshold": 0.9},
        pp.metrics.recovery_rate,
    ),
    "metrics.mutual_coherence": Call(lambda rng: {"dictionary": gaussian(rng, 6, 5)}, pp.metrics.mutual_coherence),
    "metrics.psnr": Call(  # infinite for equal images
        lambda rng: {"image": _image(rng), "reference": 255 * rng.random((14, 13)), "data_range": 255.0},
        pp.metrics.psnr,
        finite=False,
    ),
    "metrics.ssim": Call(
        lambda rng: {
            "image": 255 * rng.random((14, 13)),
            "reference": 255 * rng.random((14, 13)),
            "data_range": 255.0,
        },
        pp.metrics.ssim,
    ),
    **{
        f"transforms.{name}": Call(lambda rng: {"n": 16}, getattr(pp.transforms, name))
        for name in ("hadamard", "dft", "hartley", "dct", "haar")
    },
    "transforms.wavelet": Call(lambda rng: {"n": 16, "name": "db2", "level": 1}, pp.transforms.wavelet),
    "datasets.random_dictionary": Call(
        lambda rng: {"n_features": 6, "n_components": 8, "random_state": 0}, pp.datasets.random_dictionary
    ),
    "datasets.factorizable_dictionary": Call(
        lambda rng: {"n_features": 6, "n_factors": 3, "random_state": 0}, pp.datasets.factorizable_dictionary
    ),
    "datasets.synthetic_signals": Call(
        lambda rng: {"dictionary": gaussian(rng, 6, 8), "n_signals": 9, "n_nonzero_coefs": 2, "random_state": 0},
        pp.datasets.synthetic_signals,
    ),
    **{
        f"datasets.{name}": Call(
            lambda rng: {"n_signals": 9, "n_features": 6, "n_nonzero_coefs": 2, "random_state": 0},
            getattr(pp.datasets, name),
        )
        for name in ("rand", "fact")
    },
    "datasets.image_patches": Call(
        lambda rng: (
            {"n_patches": 9, "patch_size": 4, "images": "china", "remove_mean": True, "random_state": 0}
            | chosen(rng, {"dtype": np.float32})
        ),
        pp.datasets.image_patches,
    ),
    "datasets.on_disk": Call(lambda rng: {"path": "none.npy"}, pp.datasets.on_disk, errors=(OSError,)),
    "load": Call(lambda rng: {"path": "none.npz"}, pp.load, errors=(OSError,)),
    "set_num_threads": Call(lambda rng: {"n": 2}, pp.set_num_threads),
    "images.extract_patches": Call(
        lambda rng: {"image": _image(rng), "size": 4, "stride": 2}, pp.images.extract_patches, finite=False
    ),
    "images.average_patches": Call(
        lambda rng: {"patches": real(rng, 25, 16), "image_shape": (12, 12), "stride": 2}, pp.images.average_patches
    ),
    "images.redundant_dct": Call(lambda rng: {"patch_size": 4, "atoms_per_side": 5}, pp.images.redundant_dct),
    "images.denoise": Call(
        lambda rng: (
            {"image": _image(rng), "sigma": 30.0, "dictionary": np.eye(16), "stride": 2}
            | chosen(rng, {"patch_size": 4, "gain": 1.2, "random_state": 0})
        ),
        pp.images.denoise,
        lambda result, image, **_: (
            None if shape_of(image) is None else require_shape(result.shape, shape_of(image))
        ),
    ),
    "images.denoise, learning": Call(
        lambda rng: (
            {"image": _image(rng), "sigma": 30.0, "n_components": 20, "complexity": 0.6, "patch_size": 4}
            | {"stride": 2, "random_state": 0, "callback": stopping(30)}
        ),
        pp.images.denoise,
    ),
}
