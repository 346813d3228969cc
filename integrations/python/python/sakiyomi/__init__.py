"""Hides I/O time behind computation, and predicts it.

=====================  ==============================================================
``blocked_reads``      blocks of files, read ahead while Python computes on earlier ones
``open_ahead``         a binary file that is read ahead, for pandas, pickle, tarfile ...
``prefetch``           ranges of a file in an order that the program knows
``load_safetensors``   tensors as NumPy arrays, at the speed of the device
``sort``               a table in the order of columns, within a memory limit; ``join``,
                       ``aggregate``
``simulate``           a block trace on a simulated hard disk; ``sweep``, ``compare``, ``drives``,
                       ``generate_pc``
``validate``           a simulated drive beside a measured one; ``drive.fit`` identifies one
``scenario``           an experiment of programs, caches and drives in virtual time
``io_report``          what this process waited for, by file
``run``                a command whose files are read ahead, and the report of it
=====================  ==============================================================

>>> import sakiyomi
>>> sum(block.count(b"\\n") for block in sakiyomi.blocked_reads("access.log"))  # doctest: +SKIP
100000

Errors are ``OSError`` where a system call has failed, and ``sakiyomi.Error`` otherwise.
"""

from sakiyomi import drive
from sakiyomi._native import Block, BlockedReads, Error, MemoryTrace, Prefetch, Table
from sakiyomi._query import RecordBatches, aggregate, join, join_parquet, sort, sort_parquet
from sakiyomi._reading import AheadFile, blocked_reads, open_ahead, prefetch
from sakiyomi._result import (
    CompareResult,
    FitResult,
    QueryResult,
    Record,
    Result,
    RunResult,
    ScenarioResult,
    SimResult,
    SweepResult,
    ValidateResult,
)
from sakiyomi._run import run
from sakiyomi._safetensors import load_safetensors
from sakiyomi._simulation import compare, drives, generate_pc, scenario, simulate, sweep, validate
from sakiyomi._watch import IoReport, io_report

__all__ = [
    "AheadFile",
    "Block",
    "BlockedReads",
    "CompareResult",
    "Error",
    "FitResult",
    "IoReport",
    "MemoryTrace",
    "Prefetch",
    "QueryResult",
    "Record",
    "RecordBatches",
    "Result",
    "RunResult",
    "ScenarioResult",
    "SimResult",
    "SweepResult",
    "Table",
    "ValidateResult",
    "aggregate",
    "blocked_reads",
    "compare",
    "drive",
    "drives",
    "generate_pc",
    "io_report",
    "join",
    "join_parquet",
    "load_safetensors",
    "open_ahead",
    "prefetch",
    "run",
    "scenario",
    "simulate",
    "sort",
    "sort_parquet",
    "sweep",
    "validate",
]
