"""Random cases by Hypothesis. `make fuzz` runs many more of them than `make test-slow`."""
