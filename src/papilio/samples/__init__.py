"""Samples that need not fit into memory, and passes over them."""

from .dask import with_checked_chunks as with_checked_chunks
from .passes import groups_of as groups_of
from .passes import map_reduce as map_reduce
from .rows import Samples as Samples
from .rows import as_samples as as_samples
from .rows import held as held
from .rows import is_dask as is_dask
from .rows import is_large as is_large
from .rows import on_disk as on_disk
