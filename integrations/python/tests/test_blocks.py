"""blocked_reads: content and places, memory, ends of all kinds, threads and processes."""

import _thread
import gc
import multiprocessing
import os
import signal
import threading
import time

import pytest
from conftest import evict, resident_bytes

import sakiyomi
from sakiyomi import blocked_reads


@pytest.mark.parametrize("size", [1, 1000, 4096, 1 << 20, 100 << 20])
@pytest.mark.parametrize("cached", [True, False])
def test_blocks_are_the_bytes_of_the_file_with_their_places(text, size, cached):
    path, content = text
    if size == 1:
        content = content[:3000]
        path.write_bytes(content)
    if not cached:
        evict(path)
    blocks = list(blocked_reads(path, size))
    assert [block.number for block in blocks] == list(range(-(-len(content) // size)))
    assert all(block.offset == block.number * size and block.file == 0 for block in blocks)
    assert all(len(block) == size for block in blocks[:-1])
    assert b"".join(blocks) == content


def test_files_follow_each_other_and_empty_ones_have_no_block(tmp_path):
    contents = [b"ab" * 700, b"", b"c", b"", b"d" * 1000]
    paths = [tmp_path / str(number) for number in range(len(contents))]
    for path, content in zip(paths, contents):
        path.write_bytes(content)
    read = [(block.file, block.path, block.offset, bytes(block)) for block in blocked_reads(map(str, paths), 1000)]
    assert read == [
        (0, str(paths[0]), 0, contents[0][:1000]),
        (0, str(paths[0]), 1000, contents[0][1000:]),
        (2, str(paths[2]), 0, b"c"),
        (4, str(paths[4]), 0, contents[4]),
    ]
    assert list(blocked_reads([])) == []
    assert list(blocked_reads(paths[1])) == []


@pytest.mark.parametrize("block", [None, 1, 10_000])
def test_records_are_whole_and_in_order(text, block):
    path, content = text
    if block == 1:
        content = content[: content.index(b"\n", 2000)]
        path.write_bytes(content)
    at = 0
    for lines in blocked_reads(path, block, b"\n"):
        assert lines.offset == at and lines.number is None
        at += len(lines)
        assert bytes(lines).endswith(b"\n") or at == len(content)
    assert at == len(content)


def test_records_of_a_length_are_whole(text):
    path, content = text
    blocks = list(blocked_reads(path, 10_000, 77))
    assert all(len(block) % 77 == 0 for block in blocks[:-1])
    assert b"".join(blocks) == content


def test_a_pipe_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"x" * 300_000))
    writer.start()
    assert sum(block.count(b"x") for block in blocked_reads(pipe, 1000)) == 300_000
    writer.join()


def test_views_have_the_memory_of_the_block(text):
    numpy = pytest.importorskip("numpy")
    path, content = text
    block = next(blocked_reads(path))
    first, second = numpy.frombuffer(block, "u1"), numpy.frombuffer(block, "u1")
    assert first.ctypes.data == second.ctypes.data == numpy.frombuffer(memoryview(block)[:10], "u1").ctypes.data
    assert not first.flags.writeable and first.tobytes() == content[: len(first)]
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.py_buffer(block).address == first.ctypes.data
    with pytest.raises(TypeError):
        memoryview(block)[0] = 1


def test_views_outlive_the_block_the_iterator_and_its_successors(text):
    path, content = text
    reads = blocked_reads(path, 100_000)
    views = [memoryview(block)[5:] for block in reads]
    del reads
    for _ in range(3):
        for _ in blocked_reads(path, 100_000):
            pass
    gc.collect()
    assert all(view == content[number * 100_000 :][5:100_000] for number, view in enumerate(views))


def test_buffers_are_used_again_only_when_no_view_is_left(text):
    path, content = text
    kept = None
    for block in blocked_reads(path, 4096):
        view = memoryview(block)
        if block.number == 3:
            kept = view
    assert kept == content[3 * 4096 : 4 * 4096]


def test_count_is_that_of_bytes(text):
    path, content = text
    assert sum(block.count(b"\n") for block in blocked_reads(path)) == content.count(b"\n")
    block = next(blocked_reads(path))
    for wrong, error in [(b"", ValueError), (b"ab", ValueError), ("\n", TypeError), (10, TypeError)]:
        with pytest.raises(error, match="a single byte such as|a byte such as"):
            block.count(wrong)


@pytest.mark.parametrize(
    "arguments, error, sentence",
    [
        ({"block": 0}, ValueError, "block is 0"),
        ({"block": -1}, OverflowError, "negative"),
        ({"records": 0}, ValueError, "records is 0"),
        ({"records": b""}, ValueError, "single byte"),
        ({"records": "\n"}, TypeError, "give a byte"),
        ({"threads": 0}, ValueError, "threads is 0"),
    ],
)
def test_wrong_arguments_are_said_at_once(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        blocked_reads("/etc/passwd", **arguments)


def test_errors_come_in_the_place_of_the_block_once(tmp_path):
    good = tmp_path / "good"
    good.write_bytes(b"text")
    reads = blocked_reads([good, tmp_path / "missing", good])
    assert bytes(next(reads)) == b"text"
    with pytest.raises(FileNotFoundError, match="cannot open .*missing: No such file") as raised:
        next(reads)
    assert raised.value.errno == 2
    assert list(reads) == []
    with pytest.raises(IsADirectoryError):
        next(blocked_reads(tmp_path))
    with pytest.raises(TypeError):
        blocked_reads(3)
    with pytest.raises(sakiyomi.Error, match="unexpected NUL byte"):
        next(blocked_reads("a\0b"))


def test_a_record_that_is_too_long_is_an_error_of_ours(tmp_path):
    path = tmp_path / "long"
    with open(path, "wb") as file:
        file.write(bytes(200 << 20))
    with pytest.raises(sakiyomi.Error, match="a record of .* is longer than"):
        list(blocked_reads(path, 1000, b"\n"))


def test_a_closed_iterator_says_so_and_closing_twice_is_nothing(text):
    path, content = text
    with blocked_reads(path, 1000) as reads:
        block = next(reads)
    reads.close()
    with pytest.raises(ValueError, match="closed"):
        next(reads)
    assert bytes(block) == content[:1000]


def test_an_exception_in_the_loop_ends_the_reading(text):
    path, _ = text
    threads = len(os.listdir("/proc/self/task"))
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            for block in blocked_reads(path, 1000):
                1 // (block.number - 3)
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads)


def test_threads_share_an_iterator(text):
    path, content = text
    reads, taken = blocked_reads(path, 1000), []
    threads = [threading.Thread(target=lambda: taken.extend(reads)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert b"".join(sorted(taken, key=lambda block: block.number)) == content


def test_ctrl_c_ends_a_wait(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    try:
        threading.Timer(0.2, _thread.interrupt_main).start()
        since = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            next(blocked_reads(pipe))
        assert time.monotonic() - since < 5
    finally:
        os.close(end)


def lines_of(path):
    return sum(block.count(b"\n") for block in blocked_reads(path, 10_000))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_read_by_themselves(text, method):
    path, content = text
    list(blocked_reads(path))
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert pool.map(lines_of, [str(path)] * 6) == [content.count(b"\n")] * 6


def test_a_forked_process_gets_an_error_from_the_iterator_and_keeps_its_blocks(text):
    path, content = text
    reads = blocked_reads(path, 1000)
    block = next(reads)

    def child():
        try:
            next(reads)
        except sakiyomi.Error as error:
            assert "forked" in str(error)
            assert bytes(block) == content[:1000]
            reads.close()
            return lines_of(path) == content.count(b"\n")

    assert in_fork(child)
    assert bytes(block) + b"".join(reads) == content


def test_no_memory_is_lost(tmp_path):
    path = tmp_path / "small"
    path.write_bytes(b"x" * 10_000)

    def rounds(number):
        for _ in range(number):
            for block in blocked_reads(path, 3000):
                memoryview(block)
                break
            with pytest.raises(ValueError):
                block.count(b"")

    rounds(1000)
    wait_until(lambda: len(os.listdir("/proc/self/task")) < 20)
    before = resident_bytes()
    rounds(10_000)
    wait_until(lambda: len(os.listdir("/proc/self/task")) < 20)
    # Stacks of threads that are ending, and arenas of the allocator.
    assert resident_bytes() - before < 32 << 20


def test_no_memory_is_lost_over_many_blocks(tmp_path):
    path = tmp_path / "many"
    path.write_bytes(b"x" * 1_000_000)
    count = 0
    for _ in blocked_reads(path, 10):
        pass
    before = resident_bytes()
    for block in blocked_reads([path] * 2, 10):
        memoryview(block)
        count += 1
    assert count == 200_000
    assert resident_bytes() - before < 16 << 20


def test_what_is_read_ahead_is_bounded(tmp_path):
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    before = resident_bytes()
    reads = blocked_reads(path)
    next(reads)
    time.sleep(0.5)
    assert resident_bytes() - before < 128 << 20


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def in_fork(work):
    """Whether `work` returns true in a forked process, which a watchdog ends."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
