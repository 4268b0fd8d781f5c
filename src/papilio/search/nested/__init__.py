"""Nested low rank: blocks of clusters of rows and columns, which share bases."""
