"""The gain matrix: that of the package tvb-data, or a simulated one."""

from importlib.resources import as_file, files
from importlib.util import find_spec
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np

from ...linalg import column_norms
from ...typing import Array
from .simulation import simulated_gain

TVB, SIMULATED = "tvb-data", "simulated"
_MATRIX = "projectionMatrix/projection_meg_276_surface_16k.npy"
_SURFACE = "surfaceData/cortex_16384.zip"


class Gain(NamedTuple):
    """Sensors by sources, with unit columns; where the sources are, in centimetres; and whose matrix it is."""

    matrix: Array
    places: Array
    origin: str


def load_gain(origin: str, n_sensors: int, n_sources: int) -> Gain:
    """The gain matrix of tvb-data if ``origin`` says so and the package is installed, else a simulated one."""
    if origin == TVB and find_spec("tvb_data") is not None:
        matrix, places = _of_tvb_data()
        origin = TVB
    else:
        matrix, places = simulated_gain(n_sensors, n_sources)
        places, origin = 100 * places, SIMULATED
    return Gain(np.ascontiguousarray(matrix / column_norms(matrix)), places, origin)


def _of_tvb_data() -> tuple[Array, Array]:
    """The matrix without the sensors that it has no numbers for, and the vertices of the cortex."""
    folder = files("tvb_data")
    with as_file(folder.joinpath(_MATRIX)) as path:
        matrix = np.load(path, allow_pickle=False)
    with (
        as_file(folder.joinpath(_SURFACE)) as path,
        ZipFile(path) as archive,
        archive.open("vertices.txt") as file,
    ):
        millimetres = np.loadtxt(file)
    return matrix[~np.isnan(matrix).any(axis=1)], millimetres / 10
