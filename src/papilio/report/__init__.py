"""One page about a result: HTML that needs nothing else, neither network nor scripts."""

from .page import Measured, Subject, page

__all__ = ["Measured", "Subject", "page"]
