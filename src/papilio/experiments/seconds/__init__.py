"""Dictionaries of image patches: the error on new patches against the measured time."""
