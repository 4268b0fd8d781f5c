"""Denoising photographs in dictionaries that were learned from the noisy image itself."""
