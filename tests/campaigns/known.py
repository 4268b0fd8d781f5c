"""Cases that failed once and were mended: `tests/test_campaigns.py` runs them again.

A case is what its generator makes of it: after a change of the generators, it is another one. What matters gets a
test of its own, too.
"""

from .case import Case

MENDED = (
    # Matrix Market files that ended the process.
    Case("files", 0, 123),
    Case("files", 0, 127),
    Case("files", 1, 321),
    Case("files", 1, 383),
    Case("files", 1, 730),
)
