"""Chains of factors with laws of their own: convolutions, non-negative factors."""
