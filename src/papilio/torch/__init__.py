"""Products of sparse factors as layers of PyTorch; needs the extra ``torch``."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("papilio.torch needs PyTorch: pip install torch", name="torch") from error

from .compression import Compression as Compression
from .compression import LayerReport as LayerReport
from .compression import compress as compress
from .layer import FastLinear as FastLinear

__all__ = ["Compression", "FastLinear", "LayerReport", "compress"]
