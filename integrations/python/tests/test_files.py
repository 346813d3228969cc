"""open_ahead and prefetch: files as others expect them."""

import io
import json
import multiprocessing
import os
import pickle
import tarfile
import threading
import zipfile

import pytest
from conftest import evict, resident_bytes
from test_blocks import in_fork

import sakiyomi
from sakiyomi import open_ahead, prefetch


@pytest.mark.parametrize("cached", [True, False])
def test_it_reads_as_a_plain_file(text, cached):
    path, content = text
    if not cached:
        evict(path)
    with open_ahead(path) as file:
        assert file.readable() and file.seekable() and not file.writable() and file.name == path and file.mode == "rb"
        assert file.readline() == content.splitlines(keepends=True)[0]
        assert file.seek(100) == 100 and file.tell() == 100
        assert file.read(10) == content[100:110]
        assert file.seek(-10, os.SEEK_CUR) == 100
        assert file.seek(-7, os.SEEK_END) == len(content) - 7
        assert file.read() == content[-7:] and file.read() == b"" and file.readline() == b""
        assert file.seek(10**12) == 10**12 and file.read(1) == b""
        file.seek(0)
        assert list(file) == content.splitlines(keepends=True)
        file.seek(0)
        buffer = bytearray(3_000_000)
        assert file.readinto(buffer) == 3_000_000 and buffer == content[:3_000_000]
        assert file.read() == content[3_000_000:]
        assert file.raw.statistics()["read_bytes"] >= len(content)
    assert file.closed and file.raw.closed


def test_the_unbuffered_file_reads_into_any_memory(text):
    numpy = pytest.importorskip("numpy")
    path, content = text
    raw = open_ahead(path).detach()
    for target in [bytearray(10_000_000), numpy.zeros(1000, "f8"), memoryview(bytearray(10))[2:8], bytearray()]:
        raw.seek(0)
        read = raw.readinto(target)
        assert read == min(memoryview(target).nbytes, len(content))
        assert memoryview(target).cast("B")[:read] == content[:read] if read else True
    for wrong in [b"bytes", "text", None, 3, memoryview(bytearray(10))[::2]]:
        with pytest.raises((TypeError, BufferError)):
            raw.readinto(wrong)
    raw.seek(0)
    assert raw.readall() == content and raw.readall() == b""


def test_others_take_it_as_a_file(tmp_path):
    value = {"list": list(range(50_000)), "text": "ü" * 1000}
    (tmp_path / "pickle").write_bytes(pickle.dumps(value))
    (tmp_path / "json").write_text(json.dumps(value))
    with tarfile.open(tmp_path / "tar", "w") as tar, zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        tar.add(tmp_path / "json", "json")
        archive.write(tmp_path / "json", "json")
    with open_ahead(tmp_path / "pickle") as file:
        assert pickle.load(file) == value
    with open_ahead(tmp_path / "json") as file:
        assert json.load(file) == value
    with open_ahead(tmp_path / "tar") as file, tarfile.open(fileobj=file) as tar:
        assert json.load(tar.extractfile("json")) == value
    with open_ahead(tmp_path / "zip") as file, zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("json")) == value
    with io.TextIOWrapper(open_ahead(tmp_path / "json"), "utf-8") as file:
        assert file.read() == json.dumps(value)


@pytest.mark.parametrize("package", ["pyarrow.csv", "pandas"])
def test_readers_of_csv_take_it_as_a_file(tmp_path, package):
    reader = pytest.importorskip(package)
    (tmp_path / "csv").write_bytes(b"a,b\n" + b"1,2\n" * 1000)
    with open_ahead(tmp_path / "csv") as file:
        assert len(reader.read_csv(file)["a"]) == 1000


def test_empty_files_and_files_that_grow(tmp_path):
    path = tmp_path / "grows"
    path.write_bytes(b"")
    with open_ahead(path) as file:
        assert file.read() == b"" and list(file) == []
        path.write_bytes(b"more")
        assert file.read() == b"more"


@pytest.mark.parametrize("use", ["read", "readline", "tell", "readable", "__next__", "__enter__"])
def test_a_closed_file_says_so(text, use):
    file = open_ahead(text[0])
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        getattr(file, use)()


def test_errors_are_those_of_the_system(tmp_path):
    for path, error in [(tmp_path / "missing", FileNotFoundError), (tmp_path, IsADirectoryError)]:
        with pytest.raises(error):
            open_ahead(path)
        with pytest.raises(error):
            prefetch(path, [])
    path = tmp_path / "file"
    path.write_bytes(b"text")
    with pytest.raises(ValueError, match="step is 1; leave it out, or give at least 4096"):
        open_ahead(path, step=1)
    with open_ahead(path) as file:
        for offset, whence in [(-1, 0), (-5, 2), (-1, 1)]:
            with pytest.raises((ValueError, OSError)):
                file.seek(offset, whence)
        with pytest.raises(ValueError, match="whence value 7"):
            file.seek(0, 7)
        with pytest.raises(TypeError):
            pickle.dumps(file.raw)


def test_a_pipe_is_opened_plainly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"text"))
    writer.start()
    with open_ahead(pipe) as file:
        assert file.read() == b"text"
    writer.join()


def test_a_fixed_distance_prefetches(tmp_path):
    path = tmp_path / "cold"
    path.write_bytes(os.urandom(8 << 20))
    evict(path)
    with open_ahead(path, limit=2 << 20, step=1 << 20) as file:
        for _ in iter(lambda: file.read(64 << 10), b""):
            pass
        figures = file.raw.statistics()
    assert figures["read_bytes"] == 8 << 20
    assert set(figures) == {
        "read_bytes", "prefetched_bytes", "waits", "io_wait_ns", "io_hidden_ns", "ahead_bytes",
    }


def test_threads_read_one_file(text):
    path, content = text
    raw, parts = open_ahead(path).detach(), []

    def read():
        while part := raw.read(1000):
            parts.append(part)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(map(len, parts)) == len(content)
    assert sorted(b"".join(parts)) == sorted(content)


def rest_of(path):
    with open_ahead(path) as file:
        return len(file.read())


def test_files_and_processes(text):
    path, content = text
    evict(path)
    with open_ahead(path, limit=1 << 20, step=1 << 18) as file:
        file.read(1000)
        assert in_fork(lambda: file.tell() == 1000 and file.read() == content[1000:])
        assert file.tell() == 1000 and file.read() == content[1000:]
        for method in ["fork", "spawn"]:
            with multiprocessing.get_context(method).Pool(2) as pool:
                assert pool.map(rest_of, [str(path)] * 4) == [len(content)] * 4


def test_a_file_that_another_thread_reads_at_the_fork_never_hangs_the_child(text):
    path, _ = text
    raw, end = open_ahead(path).detach(), threading.Event()

    def read():
        target = bytearray(5_000_000)
        while not end.is_set():
            raw.seek(0)
            raw.readinto(target)

    thread = threading.Thread(target=read)
    thread.start()

    def child():
        try:
            raw.read(10)
        except sakiyomi.Error as error:
            assert "forked" in str(error)
        raw.close()
        return True

    try:
        assert all(in_fork(child) for _ in range(30))
    finally:
        end.set()
        thread.join()


def test_no_memory_is_lost(text):
    path, _ = text

    def rounds(number):
        raw = open_ahead(path).detach()
        target = bytearray(100)
        for _ in range(number):
            raw.seek(0)
            raw.readinto(target)
            with pytest.raises(ValueError):
                raw.seek(-1)
        for _ in range(number // 10):
            open_ahead(path).read(10)

    rounds(1000)
    before, files = resident_bytes(), len(os.listdir("/proc/self/fd"))
    rounds(100_000)
    assert resident_bytes() - before < 16 << 20
    assert len(os.listdir("/proc/self/fd")) == files


def test_ranges_arrive_in_any_order(text):
    path, content = text
    evict(path)
    order = [(4_000_000, 4_000_100), (0, 1_000_000), (10, 10), (2**40, 2**41), (4_000_000, 4_000_100)]
    with prefetch(path, order) as ahead, open(path, "rb") as file:
        assert ahead.size == len(content) and ahead.range(1) == (0, 1_000_000)
        assert ahead.range(3) == (len(content), len(content))
        for index in range(len(order)):
            start, stop = ahead.range(index)
            ahead.wait(index)
            file.seek(start)
            assert file.read(stop - start) == content[start:stop]
            ahead.advance(index + 1)
        assert set(ahead.statistics()) == {"prefetched_bytes", "ahead_bytes", "waits", "io_wait_ns"}
        with pytest.raises(sakiyomi.Error, match="range 5 of .* does not exist"):
            ahead.wait(5)
    ahead.close()
    for use in [lambda: ahead.wait(0), lambda: ahead.advance(1), lambda: ahead.size, ahead.statistics]:
        with pytest.raises(ValueError, match="closed"):
            use()


def test_wrong_ranges_are_said_in_a_sentence(text):
    path, _ = text
    with pytest.raises(sakiyomi.Error, match="range 1 ends at byte 1, before it begins at byte 2"):
        prefetch(path, [(0, 1), (2, 1)])
    with pytest.raises(sakiyomi.Error, match="a window of 1 bytes is too small"):
        prefetch(path, [(0, 1)], memory=1)
    for wrong in [[(-1, 1)], [(0, 2**64)]]:
        with pytest.raises(OverflowError):
            prefetch(path, wrong)
    for wrong in [[0], [(0, 1, 2)], 3, [("a", "b")]]:
        with pytest.raises((TypeError, ValueError)):
            prefetch(path, wrong)


def test_ranges_of_a_forked_process_are_an_error(text):
    ahead = prefetch(text[0], [(0, 1000)])

    def child():
        try:
            ahead.wait(0)
        except sakiyomi.Error as error:
            ahead.close()
            return "forked" in str(error)

    assert in_fork(child)
    assert ahead.wait(0) in (True, False)


def test_a_file_of_the_kernel_is_read_whatever_its_size_says():
    with open_ahead("/proc/version") as file, open("/proc/version", "rb") as plain:
        assert file.read() == plain.read()
    with open_ahead("/proc/self/smaps") as file:
        assert len(file.read()) > 4096


def test_an_empty_file_has_no_bytes(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with open_ahead(tmp_path / "empty") as file:
        assert file.read() == b"" and file.read(10) == b""
