"""`factorize` and the methods it tries; the trade-off between error and complexity."""
