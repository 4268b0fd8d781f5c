"""Random sparse products: which of them `factorize` recovers from their entries alone."""
