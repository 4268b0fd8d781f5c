"""Images: patches and their averages, the redundant DCT dictionary, and denoising with any dictionary."""

from .denoising import denoise, redundant_dct
from .patches import average_patches, extract_patches

__all__ = ["average_patches", "denoise", "extract_patches", "redundant_dct"]
