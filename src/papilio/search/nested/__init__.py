"""Hierarchical matrices with nested bases (HSS, H²), by cluster trees, and butterflies of rank r."""
