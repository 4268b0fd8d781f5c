"""Planted dictionaries with non-negative codes: how much of them is found, against published figures."""
