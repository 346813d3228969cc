"""Shared part of the benchmarks: commands, fio, and a mount that is always unmounted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent


def ended(number, _):
    sys.exit(128 + number)


# A benchmark that is told to end unmounts, as after an error; without this, only Ctrl-C would let it.
signal.signal(signal.SIGTERM, ended)
signal.signal(signal.SIGHUP, ended)


def run(*words, **options):
    """Stdout of a command, which must succeed."""
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True, **options).stdout


def have_fio():
    if shutil.which("fio") is None:
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "fio"], check=True)


class Served:
    """`backing` as it is seen under `at`, from the moment that it is mounted; `before` stands before the command."""

    def __init__(self, sakiyomi, backing, at, *options, before=()):
        self.at = Path(at)
        self.at.mkdir(exist_ok=True)
        words = [*before, sakiyomi, "mount", backing, at, "--json", *options]
        self.process = subprocess.Popen(
            [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(1000):
            if os.path.ismount(at) or self.process.poll() is not None:
                break
            time.sleep(0.01)
        if not os.path.ismount(at):
            sys.exit(f"not mounted: {self.process.communicate()[1]}")

    def end(self):
        """Unmounts; returns the summary."""
        self.process.send_signal(signal.SIGINT)
        try:
            out, errors = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            subprocess.run(["umount", "-l", str(self.at)], check=False)
            self.process.kill()
            raise
        if self.process.returncode != 0:
            sys.exit(f"the mount has failed: {errors}")
        return json.loads(out)["result"]

    def __enter__(self):
        return self.at

    def __exit__(self, *_):
        self.end()
