"""Hides I/O time behind computation, and predicts it.

=====================  ==============================================================
``blocked_reads``      blocks of files, read ahead while Python computes on earlier ones
``open_ahead``         a binary file that is read ahead, for pandas, pickle, tarfile ...
``prefetch``           ranges of a file in an order that the program knows
``load_safetensors``   tensors as NumPy arrays, at the speed of the device
``simulate``           a block trace on a simulated hard disk; ``sweep``, ``drives``
``run``                a command whose files are read ahead, and the report of it
=====================  ==============================================================

>>> import sakiyomi
>>> sum(block.count(b"\\n") for block in sakiyomi.blocked_reads("access.log"))  # doctest: +SKIP
100000

Errors are ``OSError`` where a system call has failed, and ``sakiyomi.Error`` otherwise.
"""

from sakiyomi._native import Block, BlockedReads, Error, Prefetch
from sakiyomi._reading import AheadFile, blocked_reads, open_ahead, prefetch
from sakiyomi._result import Record, Result, RunResult, SimResult
from sakiyomi._run import run
from sakiyomi._safetensors import load_safetensors
from sakiyomi._simulation import drives, simulate, sweep

__all__ = [
    "AheadFile",
    "Block",
    "BlockedReads",
    "Error",
    "Prefetch",
    "Record",
    "Result",
    "RunResult",
    "SimResult",
    "blocked_reads",
    "drives",
    "load_safetensors",
    "open_ahead",
    "prefetch",
    "run",
    "simulate",
    "sweep",
]
