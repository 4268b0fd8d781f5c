"""Orthogonal matrices as products of rotations of two coordinates each."""
