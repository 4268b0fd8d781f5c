"""Disks that are full: a writer that refuses, and a small file system where mounting one is allowed."""

import errno
import subprocess
from contextlib import contextmanager, suppress

import pytest


def no_room(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@contextmanager
def small_disk(folder, size):
    """An empty file system with room for so many bytes, mounted on a new folder; skips the test if that fails."""
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    """Leave no room; returns the file that takes it."""
    path = folder / "filling"
    with open(path, "wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return path
