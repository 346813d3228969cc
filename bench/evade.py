#!/usr/bin/env python3
"""Ways round a rate: what a process that has one can do to get more.

    bench/evade.py                      # builds, then about two minutes
    bench/evade.py --only "double fork" # one way
    bench/evade.py --seconds 4

A drive of 5 ms an I/O is mounted with --regulate. Root starts a program of user nobody with a rate of 5 % and all its
descendants (`iorate run 5 --children`), so that it may do 10 I/Os a second where the drive does 200. Each way is tried
for some seconds, and the I/Os that the program and all that it started did are counted by themselves. A way is closed if
there were no more than 1.3 times the rate's, and a few at the start.

Needs root, /dev/fuse, and setpriv of util-linux; io_uring and Linux AIO by fio, which is installed by apt-get where it is
missing. Exit code 1 if a way is open that is not named as such in the documentation.
"""

import argparse
import ctypes
import json
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from served import REPOSITORY, Served, have_fio, run

SERVICE_MS = 5
RATE = 5
ALLOWED_PER_S = RATE / 100 * 1000 / SERVICE_MS
NOBODY = 65534
# Every user may execute it, unlike one in a virtual environment of root.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
FILE_BYTES = 256 << 20
BLOCK = 4096
CLONE_PARENT = 0x8000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine)
LIBC = ctypes.CDLL(None, use_errno=True)


class Counter:
    """I/Os of all processes: bytes in a pipe that all have."""

    def __init__(self):
        self.read_end, self.write_end = os.pipe()

    def one(self, count=1):
        os.write(self.write_end, b"." * count)

    def total(self):
        os.set_blocking(self.read_end, False)
        count = 0
        try:
            while part := os.read(self.read_end, 65536):
                count += len(part)
        except BlockingIOError:
            pass
        return count


def until(seconds):
    return time.monotonic() + seconds


def place():
    return random.randrange(FILE_BYTES // BLOCK) * BLOCK


def read_for(path, counter, seconds, flags=0):
    """Reads blocks at random places."""
    end = until(seconds)
    file = os.open(path, os.O_RDONLY | flags)
    buffer = mmap.mmap(-1, BLOCK)
    while time.monotonic() < end:
        os.preadv(file, [buffer], place())
        counter.one()
    os.close(file)


def in_children(number, work):
    pids = []
    for _ in range(number):
        pid = os.fork()
        if pid == 0:
            try:
                work()
            finally:
                os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def plain(path, counter, seconds):
    read_for(path, counter, seconds)


def threads(path, counter, seconds):
    all_threads = [threading.Thread(target=read_for, args=(path, counter, seconds)) for _ in range(16)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def children(path, counter, seconds):
    in_children(16, lambda: read_for(path, counter, seconds))


def orphans(path, counter, seconds, prepare=lambda: None):
    """Children whose parents have exited before they do any I/O."""
    def parent():
        prepare()
        if os.fork() == 0:
            time.sleep(0.2)
            read_for(path, counter, seconds - 0.5)
            os._exit(0)
    in_children(16, parent)
    time.sleep(seconds)


def double_fork(path, counter, seconds):
    orphans(path, counter, seconds)


def daemons(path, counter, seconds):
    orphans(path, counter, seconds, os.setsid)


def clone_parent(path, counter, seconds):
    """Siblings rather than children."""
    for _ in range(16):
        pid = LIBC.syscall(SYS_CLONE, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            read_for(path, counter, seconds - 0.3)
            os._exit(0)
    time.sleep(seconds)


def chain(path, counter, seconds):
    """A new process for each I/O, whose parent exits."""
    end = until(seconds)
    if os.fork() == 0:
        while time.monotonic() < end:
            file = os.open(path, os.O_RDONLY)
            os.pread(file, BLOCK, place())
            counter.one()
            os.close(file)
            if os.fork() != 0:
                os._exit(0)
        os._exit(0)
    time.sleep(seconds + 0.2)


def other_program(path, counter, seconds):
    end = until(seconds)
    while time.monotonic() < end:
        subprocess.run(["dd", f"if={path}", "of=/dev/null", f"bs={BLOCK}", "count=1", "status=none",
                        f"skip={place() // BLOCK}"], check=True)
        counter.one()


def direct(path, counter, seconds):
    read_for(path, counter, seconds, os.O_DIRECT)


def mapped(path, counter, seconds):
    end = until(seconds)
    file = os.open(path, os.O_RDONLY)
    view = mmap.mmap(file, FILE_BYTES, prot=mmap.PROT_READ)
    view.madvise(mmap.MADV_RANDOM)
    order = list(range(FILE_BYTES // BLOCK))
    random.Random(os.getpid()).shuffle(order)
    for page in order:
        if time.monotonic() >= end:
            break
        view[page * BLOCK]
        counter.one()


def prefetched(path, counter, seconds):
    end = until(seconds)
    file = os.open(path, os.O_RDONLY)
    while time.monotonic() < end:
        wanted = place()
        os.posix_fadvise(file, wanted, BLOCK, os.POSIX_FADV_WILLNEED)
        os.pread(file, BLOCK, wanted)
        counter.one()


def spliced(path, counter, seconds):
    end = until(seconds)
    file = os.open(path, os.O_RDONLY)
    out, into = os.pipe()
    while time.monotonic() < end:
        moved = os.splice(file, into, BLOCK, offset_src=place())
        os.read(out, moved)
        counter.one(moved // BLOCK)


def sent(path, counter, seconds):
    end = until(seconds)
    file = os.open(path, os.O_RDONLY)
    ours, theirs = socket.socketpair()
    while time.monotonic() < end:
        os.sendfile(ours.fileno(), file, place(), BLOCK)
        theirs.recv(BLOCK, socket.MSG_WAITALL)
        counter.one()


def by_fio(engine, path, counter, seconds):
    """A deep queue."""
    found = subprocess.run(
        ["fio", "--name=x", f"--filename={path}", "--rw=randread", f"--bs={BLOCK}", "--direct=1", f"--ioengine={engine}",
         "--iodepth=32", f"--runtime={seconds}", "--time_based", "--output-format=json", "--readonly", "--size=200m"],
        capture_output=True, text=True, cwd="/")
    counter.one(json.loads(found.stdout[found.stdout.index("{"):])["jobs"][0]["read"]["total_ios"])


def uring(path, counter, seconds):
    by_fio("io_uring", path, counter, seconds)


def aio(path, counter, seconds):
    by_fio("libaio", path, counter, seconds)


def opened_before(path, counter, seconds):
    """Through a descriptor that was opened by a process without a rate."""
    end = until(seconds)
    while time.monotonic() < end:
        os.pread(INHERITED, BLOCK, place())
        counter.one()


def writes(path, counter, seconds):
    end = until(seconds)
    file = os.open(path + ".written", os.O_RDWR)
    while time.monotonic() < end:
        os.pwrite(file, b"x" * BLOCK, place())
        counter.one()


def set_rate(*words):
    done = subprocess.run([SAKIYOMI, "iorate", *map(str, words)], capture_output=True, text=True)
    return done.returncode == 0


def cleared(path, counter, seconds):
    """Takes the rate away, raises it, and gives its children better ones."""
    directory = os.path.dirname(path)
    parent = os.getppid()
    for pid in [os.getpid(), parent]:
        for words in [("clear", pid, directory), ("set", pid, directory, 40), ("set", pid, directory, 40, "--children")]:
            set_rate(*words)
    read_for(path, counter, seconds)


def own_tree(path, counter, seconds):
    """Gives a child a rate of its own, nearer than the tree's."""
    directory = os.path.dirname(path)

    def child():
        set_rate("set", os.getpid(), directory, 40)
        read_for(path, counter, seconds)
    in_children(1, child)


def other_namespace(path, counter, seconds):
    """In a user and PID namespace of its own."""
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY / 'bench')!r}); import evade; " \
           f"evade.read_for({path!r}, evade.counter_of({counter.write_end}), {seconds})"
    subprocess.run(["unshare", "--map-root-user", "--pid", "--fork", PYTHON, "-c", code],
                   pass_fds=[counter.write_end], check=True)


def counter_of(write_end):
    counter = Counter.__new__(Counter)
    counter.write_end = write_end
    return counter


def moved_group(path, counter, seconds):
    """Into another control group, as far as a user may."""
    for hierarchy in Path("/sys/fs/cgroup").glob("*"):
        try:
            (hierarchy / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            pass
    read_for(path, counter, seconds)


def killed(path, counter, seconds):
    """A child per I/O, which is killed while it waits, so that its I/O need not be waited for."""
    end = until(seconds)
    while time.monotonic() < end:
        pid = os.fork()
        if pid == 0:
            file = os.open(path, os.O_RDONLY)
            os.pread(file, BLOCK, place())
            counter.one()
            os._exit(0)
        time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def helper(path, counter, seconds):
    """Asks a process without a rate to read: its I/O is its own. (Open: named in the documentation.)"""
    end = until(seconds)
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(HELPER)
        while time.monotonic() < end:
            asked.send(place().to_bytes(8, "little"))
            asked.recv(1)
            counter.one()


WAYS = {
    "one thread": plain, "16 threads": threads, "16 children": children, "double fork": double_fork,
    "daemons (setsid)": daemons, "CLONE_PARENT": clone_parent, "a chain of orphans": chain,
    "another program per I/O": other_program, "O_DIRECT": direct, "a mapping": mapped, "fadvise, then read": prefetched,
    "splice": spliced, "sendfile": sent, "io_uring, depth 32": uring, "Linux AIO, depth 32": aio,
    "a descriptor opened before": opened_before, "writes": writes, "clears and raises its rate": cleared,
    "a rate of its own for a child": own_tree, "a namespace of its own": other_namespace,
    "another control group": moved_group, "killed while waiting": killed, "a helper without a rate": helper,
}
NAMED = {"a helper without a rate"}
INHERITED = None
HELPER = None
SAKIYOMI = None


def serve_helper(path, name):
    """A process without a rate that reads what it is asked for."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        os.chmod(name, 0o777)
        listener.listen()
        file = os.open(path, os.O_RDONLY)
        while True:
            asked, _ = listener.accept()
            while place := asked.recv(8):
                os.pread(file, BLOCK, int.from_bytes(place, "little"))
                asked.send(b".")


def attack(name, path, seconds):
    """In the process with the rate: tries a way, and prints the number of I/Os and the time until the last had ended."""
    counter = Counter()
    begun = time.monotonic()
    WAYS[name](path, counter, seconds)
    print(counter.total(), time.monotonic() - begun)


def attempt(name, arguments, mount, scratch, inherited):
    code = f"import sys; sys.path.insert(0, {str(scratch / 'bench')!r}); import evade; evade.INHERITED = {inherited}; " \
           f"evade.HELPER = {str(scratch / 'helper')!r}; evade.SAKIYOMI = {str(scratch / 'sakiyomi')!r}; " \
           f"evade.attack({name!r}, {str(mount / 'all')!r}, {arguments.seconds})"
    done = subprocess.run(
        [arguments.binary, "iorate", "run", str(RATE), mount, "--children", "--", "setpriv", f"--reuid={NOBODY}",
         f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", PYTHON, "-c", code],
        capture_output=True, text=True, pass_fds=[inherited], cwd="/", timeout=arguments.seconds * 4 + 60)
    if done.returncode != 0 or not done.stdout.strip():
        return None, done.stderr.strip().splitlines()[-1:]
    count, seconds = done.stdout.split()[-2:]
    return (int(count), float(seconds)), []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", choices=WAYS)
    arguments = parser.parse_args()
    if arguments.binary is None:
        run("cargo", "build", "--release", "--locked", cwd=REPOSITORY)
        arguments.binary = REPOSITORY / "target/release/sakiyomi"
    arguments.binary = arguments.binary.resolve()
    have_fio()
    with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="sakiyomi-evade-") as scratch:
        sys.exit(all_ways(arguments, Path(scratch)))


def all_ways(arguments, scratch):
    os.chmod(scratch, 0o755)
    # The user nobody may not read the repository.
    (scratch / "bench").mkdir()
    for name in ["evade.py", "served.py"]:
        shutil.copy(REPOSITORY / "bench" / name, scratch / "bench")
    shutil.copy(arguments.binary, scratch / "sakiyomi")
    files = scratch / "files"
    files.mkdir()
    for name in ["all", "all.written"]:
        # Ranges without data are read without the drive.
        with open(files / name, "wb") as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(os.urandom(1 << 20))
        os.chmod(files / name, 0o666)
    mount = scratch / "mount"
    open_ways = []
    with Served(arguments.binary, files, mount, "--drive", f"fixed:latency={SERVICE_MS}ms", "--regulate"):
        pid = os.fork()
        if pid == 0:
            serve_helper(mount / "all", str(scratch / "helper"))
        inherited = os.open(mount / "all", os.O_RDONLY)
        print(f"{'way':32} {'I/Os':>6} {'s':>6} {'allowed':>8}")
        try:
            for name in [arguments.only] if arguments.only else WAYS:
                found, trouble = attempt(name, arguments, mount, scratch, inherited)
                if found is None:
                    print(f"{name:32} {'–':>6}  not possible here: {' '.join(trouble)}")
                    continue
                count, seconds = found
                limit = ALLOWED_PER_S * seconds * 1.3 + 5
                is_open = count > limit
                verdict = "closed" if not is_open else "open, as documented" if name in NAMED else "OPEN"
                if verdict == "OPEN":
                    open_ways.append(name)
                print(f"{name:32} {count:6} {seconds:6.1f} {limit:8.0f}  {verdict}", flush=True)
        finally:
            os.close(inherited)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return 1 if open_ways else 0


if __name__ == "__main__":
    main()
