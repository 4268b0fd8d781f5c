"""One page about a result: HTML that needs nothing else, neither network nor scripts."""

from .page import Subject, page

__all__ = ["Subject", "page"]
