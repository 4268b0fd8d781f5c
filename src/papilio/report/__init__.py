"""A page about a result: one HTML file without scripts, which loads nothing."""

from .page import Subject, page

__all__ = ["Subject", "page"]
