"""Chains whose factors obey other laws than sparsity alone."""
