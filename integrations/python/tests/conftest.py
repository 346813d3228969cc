"""Helpers of the tests."""

import os
import random

import pytest


@pytest.fixture
def text(tmp_path):
    """A file of 5 MB of lines, of all lengths from 0 to 200 bytes."""
    numbers = random.Random(1)
    line = bytes(range(32, 127)) * 3
    content = b"".join(line[: numbers.randrange(201)] + b"\n" for _ in range(50_000))
    path = tmp_path / "text"
    path.write_bytes(content)
    return path, content


def resident_bytes():
    """The memory of this process that is in use."""
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def evict(path):
    """Drop a file from the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
