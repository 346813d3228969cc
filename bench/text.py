#!/usr/bin/env python3
"""`sakiyomi grep` beside ripgrep and GNU grep, and `sakiyomi wc` beside GNU wc, on text in the page cache: CPU seconds
of whole programs. Runs are interleaved, figures are medians.

    bench/text.py grep [--rounds 5] [--rg PROGRAM]   patterns with a literal inside, rare and frequent ones
    bench/text.py wc [--rounds 5]                    text, NULs, random bytes, a hole of 3 GiB
    bench/text.py start [--rounds 300]               wall time of a count of 1 KiB

The text is the Python sources of this machine, repeated to 0.95 GB, unless --text names another file. ripgrep is the
`rg` of PATH, or installed by cargo. --directory says where the files go. Exit code 1 if a goal is missed.
"""

import argparse
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SAKIYOMI = TARGET / "release/sakiyomi"
TEXT_BYTES = 950_000_000

PATTERNS = [
    ("a literal inside", ["[A-Z][a-z]+Error"]),
    ("a rare word", ["zzyzx"]),
    ("a rare word, -i", ["-i", "zzyzx"]),
    ("a word", ["lambda"]),
    ("two words", ["lambda|yield"]),
    ("a frequent letter", ["e"]),
    ("a frequent letter, -v", ["-v", "e"]),
    ("a frequent word, -w", ["-w", "the"]),
    ("no literal", ["[a-f]+[g-m]+ [^ ]+e[a-d]? .*s$"]),
]


def sources(path):
    """Writes the Python sources of this machine, repeatedly."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    if not files:
        sys.exit("bench/text.py: no Python sources here; name a file by --text")
    once = b"".join(file.read_bytes() for file in files if file.stat().st_size < 400_000)
    with open(path, "wb") as file:
        while file.tell() < TEXT_BYTES:
            file.write(once)


def run(command, locale="C.UTF-8"):
    """Returns the CPU seconds of a command, its wall seconds, and its output."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [str(word) for word in command]
    output = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "LC_ALL": locale}).stdout
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, output


def interleaved(commands, rounds, locale="C.UTF-8"):
    """Returns the median of CPU and of wall seconds of each command; their outputs must be the same."""
    runs = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(run(command, locale))
    outputs = {all[0][2].split() and all[0][2].split()[0] or b"0" for all in runs.values()}
    if len(outputs) != 1:
        sys.exit(f"bench/text.py: the programs differ: {outputs}")
    return {name: [statistics.median(run[at] for run in all) for at in (0, 1)] for name, all in runs.items()}


def shown(what, times):
    print(f"{what:26}", "  ".join(f"{name} {cpu:.3f} s" for name, (cpu, _) in times.items()), flush=True)


def grep(options, directory):
    text = options.text or directory / "text"
    if not options.text:
        sources(text)
    rg = options.rg or shutil.which("rg")
    if rg is None:
        subprocess.run(["cargo", "install", "-q", "-j1", "--root", directory / "rivals", "ripgrep"], check=True)
        rg = directory / "rivals/bin/rg"
    run(["cat", text])
    goals = []
    for what, pattern in PATTERNS:
        times = interleaved(
            {
                "sakiyomi": [SAKIYOMI, "grep", "-c", *pattern, text],
                "ripgrep": [rg, "--no-config", "--text", "--count", *pattern, text],
                "GNU": ["grep", "-a", "-E", "-c", *pattern, text],
            },
            options.rounds,
        )
        shown(what, times)
        goals.append((f"{what}: at most 1.25 x ripgrep", times["sakiyomi"][0] <= 1.25 * times["ripgrep"][0]))
    return goals


def wc(options, directory):
    files = {"text": options.text or directory / "text"}
    if not options.text:
        sources(files["text"])
    files |= {name: directory / name for name in ["nuls", "random", "two-byte"]}
    files["nuls"].write_bytes(bytes(300_000_000))
    files["random"].write_bytes(random.Random(1).randbytes(50_000_000))
    with open(files["text"], "rb") as file:
        files["two-byte"].write_bytes(file.read(20_000_000).decode("latin-1").encode("utf-16-le"))
    goals = []
    for name, file in files.items():
        run(["cat", file])
        for locale in ["C", "C.UTF-8"]:
            commands = {"sakiyomi": [SAKIYOMI, "wc", "-lw", file], "GNU": ["wc", "-lw", file]}
            times = interleaved(commands, options.rounds, locale)
            shown(f"{name}, {locale}", times)
            goals.append((f"{name}, {locale}: less than GNU's", times["sakiyomi"][0] < times["GNU"][0]))
    with open(directory / "hole", "wb") as file:
        file.truncate(3 << 30)
    _, wall, _ = run([SAKIYOMI, "wc", "-lwmL", directory / "hole"])
    print(f"{'a hole of 3 GiB':26} sakiyomi {wall * 1e3:.1f} ms")
    return [*goals, ("a hole of 3 GiB: less than 0.1 s", wall < 0.1)]


def start(options, directory):
    file = directory / "small"
    file.write_bytes(b"a line of sixteen\n"[:16] * 64)
    commands = {"sakiyomi": [SAKIYOMI, "wc", file], "GNU": ["wc", file]}
    times = interleaved(commands, options.rounds)
    for name, (_, wall) in times.items():
        print(f"{name:26} {wall * 1e3:.2f} ms")
    return [("at most 1.3 x GNU's", times["sakiyomi"][1] <= 1.3 * times["GNU"][1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["grep", "wc", "start"])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--rg", type=Path, help="the program ripgrep")
    parser.add_argument("--text", type=Path, help="another text")
    parser.add_argument("--directory", type=Path, default=TARGET)
    options = parser.parse_args()
    options.rounds = options.rounds or (300 if options.what == "start" else 5)
    subprocess.run(["cargo", "build", "-q", "--release", "-p", "sakiyomi"], check=True, cwd=ROOT)
    with tempfile.TemporaryDirectory(prefix="text-", dir=options.directory) as directory:
        goals = {"grep": grep, "wc": wc, "start": start}[options.what](options, Path(directory))
    for what, holds in goals:
        print(f"{'ok    ' if holds else 'MISSED'} {what}")
    sys.exit(0 if all(holds for _, holds in goals) else 1)


if __name__ == "__main__":
    main()
