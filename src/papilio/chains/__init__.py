"""Products of other kinds of factors: convolutions, non-negative matrices."""
