#!/usr/bin/env python3
"""The ten most requested paths of each minute of a web server's log: `sakiyomi stream run` beside mawk.

    cargo build --release
    bench/stream_log.py [--lines 2000000] [--rounds 5] [--awk mawk]

The log is made with a seed (about 119 bytes a line, 1,000 lines for each second of the log) and read through standard input
by both, in turns, with warm caches. Both write the same 10 rows for each minute: they are compared row by row, and a
difference is an error. Printed are the medians of the CPU time and of the elapsed time of whole processes; the bound of
both is the CPU.
"""

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from query import built  # noqa: E402

SEED = 3
LINES_PER_SECOND = 1000
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "curl/8.5.0",
          "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)"]
PIPELINE = """
[source.log]
from = "stdin"
format = "combined"
event_time = "time"

[[step]]
op = "aggregate"
by = "path"
window = "tumbling:1min"
compute = "count(*) AS requests"

[[step]]
op = "top"
k = 10
by = "requests"

[[step]]
op = "select"
columns = "path, requests"

[sink.out]
to = "stdout"
"""
AWK = """
function flush(   i, p, best, most) {
    for (i = 0; i < 10; i++) {
        best = ""; most = -1
        for (p in count) if (count[p] > most || (count[p] == most && p < best)) { most = count[p]; best = p }
        if (most < 0) break
        print best "\\t" most
        delete count[best]
    }
    delete count
}
{ minute = substr($4, 2, 17); if (minute != last) { if (last != "") flush(); last = minute }; count[$7]++ }
END { flush() }
"""


def write_log(path, lines):
    numbers = random.Random(SEED)
    with open(path, "w") as log:
        for line in range(lines):
            second = line // LINES_PER_SECOND
            day, second = divmod(second, 86400)
            log.write(f"10.{line * 7919 % 4}.{line * 104729 % 200}.{line * 1299709 % 256} - - [{1 + day:02}/Nov/2026:"
                      f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} +0000] "
                      f"\"GET /p/{int(numbers.paretovariate(0.8)) % 5000} HTTP/1.1\" {500 if line % 17 == 0 else 200} "
                      f"{100 + line % 8000} \"-\" \"{AGENTS[line % 3]}\"\n")


def timed(command, log):
    with open(log) as source, tempfile.TemporaryFile() as out:
        begun = time.perf_counter()
        process = subprocess.Popen([str(word) for word in command], stdin=source, stdout=out, stderr=subprocess.PIPE)
        errors = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"{command[0]} failed: {errors[-300:]}")
        elapsed = time.perf_counter() - begun
        out.seek(0)
        return {"elapsed_s": elapsed, "cpu_s": usage.ru_utime + usage.ru_stime, "rows": out.read().decode().splitlines()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--awk", default="mawk")
    parser.add_argument("--binary", type=Path)
    options = parser.parse_args()
    binary = built(options.binary)
    if not shutil.which(options.awk):
        sys.exit(f"{options.awk} is not installed; name another with --awk")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        log, pipeline, program = (Path(directory) / name for name in ("access.log", "top.toml", "top.awk"))
        write_log(log, options.lines)
        pipeline.write_text(PIPELINE)
        program.write_text(AWK)
        commands = {"sakiyomi": [binary, "stream", "run", pipeline, "--quiet"], options.awk: [options.awk, "-f", program]}
        runs = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                runs[name].append(timed(command, log))
        ours, theirs = (runs[name][0]["rows"] for name in commands)
        if ours != theirs:
            different = next((row for row in zip(ours, theirs) if row[0] != row[1]), (len(ours), len(theirs)))
            sys.exit(f"the rows differ: {different}")
        print(f"{options.lines} lines, {log.stat().st_size / 1e6:.0f} MB, {len(ours)} rows, which are the same\n")
        print("| program | CPU s | elapsed s | ns CPU a line |\n|---|---|---|---|")
        for name, found in runs.items():
            cpu, elapsed = (statistics.median(run[key] for run in found) for key in ("cpu_s", "elapsed_s"))
            print(f"| {name} | {cpu:.2f} | {elapsed:.2f} | {cpu / options.lines * 1e9:.0f} |")


if __name__ == "__main__":
    main()
