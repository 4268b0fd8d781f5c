"""Images: patches and their averages, the redundant DCT dictionary, and denoising with any dictionary."""

from .dct import redundant_dct
from .denoising import denoise
from .patches import average_patches, extract_patches

__all__ = ["average_patches", "denoise", "extract_patches", "redundant_dct"]
