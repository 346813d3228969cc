#!/usr/bin/env python3
"""Measures the installed package beside others on files that are not cached, such as those of slow or remote storage.

    python integrations/python/bench_cold.py DIR [--log MB] [--tensors MB] [--rounds N] [--json FILE]

DIR is on the storage; files for it are made there, and dropped from the cache before each run by posix_fadvise. The log has
lines `host,path,status`, which are counted by status; of the tensors, all bytes are touched. Each run is a process of its own,
and the means take turns. Printed are medians: elapsed time, CPU time, and the largest resident memory without that of the
imports; the first line is a bound, the time to read the file in large blocks by many threads, without using it.
"""

import argparse
import json
import os
import pickle
import random
import statistics
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor

BLOCK = 4 << 20


def make_log(path, megabytes):
    numbers = random.Random(1)
    statuses = [200] * 90 + [301, 302, 304, 404, 404, 404, 500, 503, 403, 206]
    lines = "".join(
        f"10.0.{numbers.randrange(256)}.{numbers.randrange(256)},/page/{numbers.randrange(10**6)}.html,{numbers.choice(statuses)}\n"
        for _ in range(250_000)
    ).encode()
    with open(path, "wb") as file:
        file.write(b"host,path,status\n")
        for _ in range(max(1, megabytes * 1_000_000 // len(lines))):
            file.write(lines)


def make_tensors(path, megabytes):
    count, header, at = 64, {}, 0
    width = megabytes * 1_000_000 // count // 4096 * 4096
    for number in range(count):
        header[f"layer.{number}"] = {"dtype": "F32", "shape": [width // 4], "data_offsets": [at, at + width]}
        at += width
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in range(count):
            file.write(os.urandom(width))


def make_pickle(path, megabytes):
    with open(path, "wb") as file:
        pickle.dump([os.urandom(1_000_000) for _ in range(megabytes)], file)


def make_tar(path, megabytes):
    import io

    with tarfile.open(path, "w") as tar:
        for number in range(megabytes):
            member = tarfile.TarInfo(f"{number}")
            member.size = 1_000_000
            tar.addfile(member, io.BytesIO(os.urandom(member.size)))


def bound(path):
    def read(at):
        return len(os.pread(descriptor, BLOCK, at))

    descriptor = os.open(path, os.O_RDONLY)
    with ThreadPoolExecutor(32) as pool:
        assert sum(pool.map(read, range(0, os.path.getsize(path), BLOCK))) == os.path.getsize(path)


# Counting by status. Each returns the counts, as a dict of text.


def by_open(path):
    from collections import Counter

    with open(path, "rb") as file:
        next(file)
        return Counter(line[-4:-1] for line in file)


def by_open_ahead(path):
    from collections import Counter

    import sakiyomi

    with sakiyomi.open_ahead(path) as file:
        next(file)
        return Counter(line[-4:-1] for line in file)


def by_mmap(path):
    import mmap
    from collections import Counter

    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        mapping.readline()
        return Counter(line[-4:-1] for line in iter(mapping.readline, b""))


def by_pandas(path):
    import pandas

    return dict(pandas.read_csv(path, usecols=["status"])["status"].value_counts())


def by_pandas_ahead(path):
    import pandas

    import sakiyomi

    with sakiyomi.open_ahead(path) as file:
        return dict(pandas.read_csv(file, usecols=["status"])["status"].value_counts())


def by_polars(path):
    import polars

    return dict(polars.scan_csv(path).group_by("status").len().collect(engine="streaming").iter_rows())


def by_duckdb(path):
    import duckdb

    return dict(duckdb.sql(f"select status, count(*) from read_csv('{path}') group by 1").fetchall())


def _arrow(batches):
    from collections import Counter

    counts = Counter()
    for batch in batches:
        for count in batch["status"].value_counts().to_pylist():
            counts[count["values"]] += count["counts"]
    return counts


def by_pyarrow(path):
    import pyarrow.csv

    options = pyarrow.csv.ConvertOptions(include_columns=["status"])
    return _arrow(pyarrow.csv.open_csv(path, convert_options=options))


def by_pyarrow_ahead(path):
    import pyarrow.csv

    import sakiyomi

    options = pyarrow.csv.ConvertOptions(include_columns=["status"])
    with sakiyomi.open_ahead(path) as file:
        return _arrow(pyarrow.csv.open_csv(file, convert_options=options))


def by_blocks(path):
    """Arrow compute on the blocks: `blocked_reads` gives whole lines."""
    import pyarrow.csv

    import sakiyomi

    names, convert = ["host", "path", "status"], pyarrow.csv.ConvertOptions(include_columns=["status"])

    def tables():
        for block in sakiyomi.blocked_reads(path, block=BLOCK, records=b"\n"):
            reading = pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(block.offset == 0))
            yield pyarrow.csv.read_csv(pyarrow.py_buffer(block), read_options=reading, convert_options=convert)

    return _arrow(tables())


def by_blocks_numpy(path):
    """NumPy on the blocks: the three digits before each end of a line."""
    from collections import Counter

    import numpy

    import sakiyomi

    counts = numpy.zeros(1000, "i8")
    for block in sakiyomi.blocked_reads(path, block=BLOCK, records=b"\n"):
        content = numpy.frombuffer(block, "u1")
        ends = numpy.flatnonzero(content == 10)
        ends = ends[1:] if block.offset == 0 else ends
        digits = [content[ends - place] - 48 for place in (3, 2, 1)]
        status = digits[0].astype("i4") * 100 + digits[1].astype("i4") * 10 + digits[2]
        counts += numpy.bincount(status, minlength=1000)
    return Counter({number: int(count) for number, count in enumerate(counts) if count})


# Loading tensors. Each returns the sum of the last bytes of all pages.


def _touched(tensors):
    return int(sum(int(tensor.view("u1").reshape(-1)[4095::4096].sum(dtype="i8")) for tensor in tensors.values()))


def tensors_safetensors(path):
    from safetensors.numpy import load_file

    return _touched(load_file(path))


def tensors_safe_open(path):
    from safetensors import safe_open

    with safe_open(path, "numpy") as file:
        return _touched({name: file.get_tensor(name) for name in file.keys()})


def tensors_sakiyomi(path):
    import sakiyomi

    return _touched(sakiyomi.load_safetensors(path))


# Files of other libraries.


def pickle_open(path):
    with open(path, "rb") as file:
        return len(pickle.load(file))


def pickle_ahead(path):
    import sakiyomi

    with sakiyomi.open_ahead(path) as file:
        return len(pickle.load(file))


def _members(tar):
    return sum(len(tar.extractfile(member).read()) for member in tar)


def tar_open(path):
    with tarfile.open(path) as tar:
        return _members(tar)


def tar_ahead(path):
    import sakiyomi

    with sakiyomi.open_ahead(path) as file, tarfile.open(fileobj=file) as tar:
        return _members(tar)


TASKS = {
    "log": (make_log, [
        bound, by_open, by_open_ahead, by_mmap, by_pandas, by_pandas_ahead, by_polars, by_duckdb, by_pyarrow,
        by_pyarrow_ahead, by_blocks, by_blocks_numpy,
    ]),
    "tensors": (make_tensors, [bound, tensors_safetensors, tensors_safe_open, tensors_sakiyomi]),
    "pickle": (make_pickle, [bound, pickle_open, pickle_ahead]),
    "tar": (make_tar, [bound, tar_open, tar_ahead]),
}  # fmt: skip

MODULES = ["pandas", "polars", "duckdb", "pyarrow.csv", "safetensors.numpy", "numpy"]


def evict(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))


def one(name, path):
    """Runs one function, whose imports are made before, and prints its figures."""
    import importlib

    import sakiyomi  # noqa: F401

    for module in MODULES:
        if module.split(".")[0].split("_")[0] in name or "blocks" in name and module in ("pyarrow.csv", "numpy"):
            importlib.import_module(module)
    evict(path)
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before, cpu, since = peak_bytes(), time.process_time(), time.perf_counter()
    answer = globals()[name](path)
    elapsed, used = time.perf_counter() - since, time.process_time() - cpu
    if isinstance(answer, dict):
        answer = sorted((int(key), int(value)) for key, value in answer.items())
    print(json.dumps({"s": elapsed, "cpu_s": used, "peak_bytes": peak_bytes() - before, "answer": answer}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--log", type=int, default=400)
    parser.add_argument("--tensors", type=int, default=500)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    sizes = {"log": options.log, "tensors": options.tensors, "pickle": options.files, "tar": options.files}
    table = {}
    for task, (make, functions) in TASKS.items():
        path = os.path.join(options.directory, f"bench.{task}")
        if not os.path.exists(path):
            make(path, sizes[task])
        found = {function.__name__: [] for function in functions}
        for _ in range(options.rounds):
            for function in functions:
                words = [sys.executable, __file__, "--one", function.__name__, path]
                done = subprocess.run(words, stdout=-1, stderr=-1, text=True)
                if done.returncode != 0:
                    print(f"{function.__name__}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                    continue
                found[function.__name__].append(json.loads(done.stdout))
        answers = {json.dumps(run["answer"]) for runs in found.values() for run in runs if run["answer"] is not None}
        assert len(answers) == 1, f"{task}: the answers differ: {answers}"
        size = os.path.getsize(path)
        table[task] = {"size_bytes": size}
        print(f"\n{task}, {size / 1e6:.0f} MB\n{'':20}{'s':>8}{'CPU s':>8}{'memory MB':>11}")
        for name, runs in found.items():
            if runs:
                row = {key: statistics.median(run[key] for run in runs) for key in ("s", "cpu_s", "peak_bytes")}
                table[task][name] = row
                print(f"{name:20}{row['s']:8.2f}{row['cpu_s']:8.2f}{row['peak_bytes'] / 1e6:11.0f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        main()
