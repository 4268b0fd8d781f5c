"""A MEG gain matrix made fast: error against complexity, and localisation of two sources."""
