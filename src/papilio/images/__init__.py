"""Images: patches out and back, a redundant cosine dictionary, and denoising in any dictionary."""

from .cosines import redundant_dct
from .denoising import denoise
from .patches import average_patches, extract_patches

__all__ = ["average_patches", "denoise", "extract_patches", "redundant_dct"]
