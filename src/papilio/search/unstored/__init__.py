"""Matrices that are not stored: known by a function of their entries, or by products with vectors."""
