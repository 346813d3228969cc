#!/usr/bin/env python3
"""Files of sakiyomi's encoders, read by pyarrow, DuckDB and Polars, against the same rows by the Rust library's writer.

    cargo build --release -p sakiyomi-query --example random_tables
    bench/output_check.py [--count 200] [--seed 1] [--directory DIR]

pyarrow also checks the statistics of row groups and pages. The readers come from PyPI; where they are missing, the
script says so.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ["none.parquet", "snappy.parquet", "lz4.parquet", "zstd.parquet", "none.arrow", "zstd.arrow", "lz4.arrows"]


def import_readers():
    try:
        import duckdb
        import polars
        import pyarrow
    except ImportError as error:
        sys.exit(f"{error}; pip install pyarrow duckdb polars")
    return duckdb, polars, pyarrow


def same(pyarrow, one, other):
    """Whether two pyarrow tables have the same rows; NaN equals NaN, and string types are interchangeable."""
    compute = __import__("pyarrow.compute").compute
    if one.num_rows != other.num_rows or one.num_columns != other.num_columns:
        return False
    for left, right in zip(one.columns, other.columns):
        kind = right.type
        if pyarrow.types.is_nested(kind):
            if left.to_pylist() != right.to_pylist():
                return False
            continue
        if left.type != kind:
            left = left.cast(kind)
        equal = compute.equal(left, right)
        both_null = compute.and_(compute.is_null(left), compute.is_null(right))
        if pyarrow.types.is_floating(kind):
            nan = compute.and_(compute.is_nan(left), compute.is_nan(right))
            equal = compute.or_kleene(equal, nan)
        if not compute.all(compute.or_kleene(both_null, equal), min_count=0).as_py():
            return False
    return True


def comparable(pyarrow, table):
    """Casts dictionaries to their value type, and views and large types to plain ones."""
    types = pyarrow.types
    columns = []
    for column in table.columns:
        kind = column.type
        if types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if types.is_string_view(column.type) or types.is_large_string(column.type):
            column = column.cast(pyarrow.string())
        if types.is_binary_view(column.type) or types.is_large_binary(column.type):
            column = column.cast(pyarrow.binary())
        columns.append(column)
    return pyarrow.table(columns, names=table.column_names)


def check(number, directory, readers):
    duckdb, polars, pyarrow = readers
    import pyarrow.ipc
    import pyarrow.parquet as parquet

    library = directory / f"{number}-library.parquet"
    expected = comparable(pyarrow, parquet.read_table(library))
    failures = []
    for ending in FILES:
        path = directory / f"{number}-{ending}"
        tables = {}
        if ending.endswith("parquet"):
            tables["pyarrow"] = parquet.ParquetFile(path, page_checksum_verification=False).read()
            by_library = duckdb.sql(f"select * from '{library}'").to_arrow_table()
            by_us = duckdb.sql(f"select * from '{path}'").to_arrow_table()
            if not same(pyarrow, comparable(pyarrow, by_us), comparable(pyarrow, by_library)):
                failures.append((path, "duckdb"))
            by_us, by_library = polars.read_parquet(path), polars.read_parquet(library)
            if not by_us.equals(by_library):
                failures.append((path, "polars"))
            if not statistics_match(parquet, path, library):
                failures.append((path, "statistics"))
        elif ending.endswith("arrow"):
            with pyarrow.memory_map(str(path)) as source:
                tables["pyarrow"] = pyarrow.ipc.open_file(source).read_all()
            by_us = polars.read_ipc(path)
            if by_us.height != expected.num_rows:
                failures.append((path, "polars"))
        else:
            with pyarrow.OSFile(str(path)) as source:
                tables["pyarrow"] = pyarrow.ipc.open_stream(source).read_all()
        failures += [(path, name) for name, table in tables.items()
                     if not same(pyarrow, comparable(pyarrow, table), expected)]
    return failures


def statistics_match(parquet, path, library):
    """Row groups differ between the writers, so only the extremes of the whole file are compared."""
    def whole(path):
        metadata = parquet.ParquetFile(path).metadata
        out = []
        for column in range(metadata.num_columns):
            known = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
            nulls = sum(one.null_count for one in known)
            bounds = [one for one in known if one.has_min_max]
            if any(one.num_values > 0 and not one.has_min_max for one in known):
                # A string without a short upper bound, or only NaN.
                bounds = []
            try:
                extremes = repr((min(one.min for one in bounds), max(one.max for one in bounds))) if bounds else None
            except (OverflowError, ValueError):
                # A date beyond Python's range.
                extremes = None
            out.append((nulls, extremes))
        return out
    ours, theirs = whole(path), whole(library)
    # Sakiyomi omits the bounds of long strings that have no short bound.
    return all(one == other or one[1] is None and one[0] == other[0] for one, other in zip(ours, theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path, help="keeps the files there")
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/examples/random_tables")
    arguments = parser.parse_args()
    readers = import_readers()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.directory or Path(temporary)
        failures = []
        for number in range(arguments.seed, arguments.seed + arguments.count):
            subprocess.run([arguments.program, directory, "1", str(number)], check=True)
            found = check(number, directory, readers)
            failures += found
            if not found and not arguments.directory:
                for path in directory.iterdir():
                    path.unlink()
            for path, reader in found:
                print(f"seed {number}: {path.name} differs ({reader})", flush=True)
    print(f"{arguments.count} tables in {len(FILES)} files each, {len(failures)} differences")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
