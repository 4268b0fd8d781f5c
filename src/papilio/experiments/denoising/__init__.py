"""Denoising photographs with dictionaries that are learned from the noisy image itself."""
