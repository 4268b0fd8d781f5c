"""The notice that kernels are being compiled: once, for this package's kernels, and only then."""

import numpy as np
import pytest
from numba import njit

from papilio import kernels

LINE = "papilio: compiling kernels on their first use, which may take 20 seconds or more; later runs load them\n"


@pytest.mark.parametrize("is_quiet", [True, False])
def test_only_kernels_of_this_package_count_and_only_once(is_quiet, monkeypatch, capsys):
    monkeypatch.setattr(kernels._Listener, "is_due", True)
    monkeypatch.delenv("PAPILIO_QUIET", raising=False)
    if is_quiet:
        monkeypatch.setenv("PAPILIO_QUIET", "1")

    def double(x):
        return 2 * x

    assert njit(double)(np.float64(2)) == 4
    assert capsys.readouterr().err == ""
    double.__module__ = "papilio.kernels.some"
    ours = njit(double)
    for x in (2.0, 3, True):
        assert ours(x) == 2 * x
    assert capsys.readouterr().err == ("" if is_quiet else LINE)
