"""io_report: waits of this process by file."""

import gc
import json
import os
import pickle
import threading
import time

import pytest

import sakiyomi
from conftest import evict
from sakiyomi import IoReport, io_report


@pytest.fixture
def cold(tmp_path):
    """A file of 64 MiB that is not cached."""
    path = tmp_path / "cold"
    with open(path, "wb") as file:
        for _ in range(64):
            file.write(os.urandom(1 << 20))
    evict(path)
    return path


def test_what_was_waited_for_is_told_by_file(cold):
    with io_report() as report:
        with open(cold, "rb", buffering=0) as file:
            # From the end, so that the kernel does not read ahead.
            for at in range(64 << 8, 0, -16):
                file.seek((at - 1) << 12)
                file.read(4096)
    assert report.elapsed_ns > 0 and report.samples > 0 and report.threads >= 1
    assert report.read_bytes >= 1 << 20
    assert sum(file.io_wait_ns for file in report.files) <= report.io_wait_ns
    if report.storage_read_bytes < 1 << 20 or report.io_wait_ns < 20_000_000:
        pytest.skip("the storage here is a cache, or too fast")
    first = report.files[0]
    assert (first.path, first.call) == (str(cold), "read") and first.samples > 0
    assert first.io_wait_ns > report.io_wait_ns / 2


def test_a_computing_process_waits_for_nothing():
    with io_report() as report:
        since = time.monotonic()
        while time.monotonic() - since < 0.3:
            pass
        time.sleep(0.2)
        threading.Thread(target=time.sleep, args=(0.1,)).start()
        read, write = os.pipe()
        threading.Timer(0.1, os.write, (write, b"x")).start()
        os.read(read, 1)
    os.close(read), os.close(write)
    assert report.io_wait_ns < 100_000_000
    assert report.computing_ns > 150_000_000
    assert report.elapsed_ns > 500_000_000


def test_a_report_is_a_result_a_page_and_a_table(cold):
    with io_report() as report:
        cold.read_bytes()
    document = json.loads(report.to_json())
    assert document["schema"] == "sakiyomi.io-report/1" and document["result"] == report.to_dict()
    assert "I/O waits of this process" in report.to_html() and report._repr_html_().startswith("<iframe")
    copy = pickle.loads(pickle.dumps(report))
    assert copy == report and type(copy) is IoReport and repr(copy).startswith("<IoReport of ")
    assert any("page fault" in note.lower() for note in report.notes)
    if report.files:
        pyarrow = pytest.importorskip("pyarrow")
        assert pyarrow.table(report).num_rows == len(report.files)


def test_a_report_is_complete_when_its_block_has_ended():
    report = io_report()
    assert repr(report) == "<IoReport, not complete yet>"
    with report:
        with pytest.raises(AttributeError, match="'io_wait_ns' yet; it is complete when its with block has ended"):
            report.io_wait_ns
        with pytest.raises(ValueError, match="has been used"):
            report.__enter__()
    assert report.io_wait_ns >= 0
    with pytest.raises(ValueError, match="call io_report"):
        report.__enter__()
    with pytest.raises(ZeroDivisionError), io_report() as failed:
        1 // 0
    assert failed.elapsed_ns > 0


def test_reports_nest_and_leave_no_thread_behind():
    with io_report() as outer, io_report() as inner:
        time.sleep(0.02)
    assert outer.elapsed_ns >= inner.elapsed_ns
    threads = len(os.listdir("/proc/self/task"))
    files = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with io_report():
            pass
        sakiyomi._native.IoWatch()
    gc.collect()
    assert len(os.listdir("/proc/self/task")) <= threads + 1
    assert len(os.listdir("/proc/self/fd")) <= files + 1


def test_many_threads_are_looked_at():
    stop = threading.Event()
    with io_report() as report:
        threads = [threading.Thread(target=stop.wait) for _ in range(150)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        stop.set()
        for thread in threads:
            thread.join()
    assert report.threads >= 100 and report.io_wait_ns < 10**9


def test_a_forked_process_has_no_report():
    with io_report():
        watch = sakiyomi._native.IoWatch()
        child = os.fork()
        if child == 0:
            try:
                watch.finish()
            except sakiyomi.Error as error:
                os._exit(0 if "forked" in str(error) else 3)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_that_has_not_waited_has_an_empty_table():
    pyarrow = pytest.importorskip("pyarrow")
    with sakiyomi.io_report() as report:
        pass
    if not report.files:
        table = pyarrow.table(report.table())
        assert table.num_rows == 0
        assert table.column_names == ["path", "call", "io_wait_ns", "samples"]
