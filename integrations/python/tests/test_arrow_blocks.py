"""Records of blocks as batches of Arrow's: the lines, without a copy, by any consumer."""

import gc
import gzip
import os

import pytest

import sakiyomi
from conftest import resident_bytes
from sakiyomi import blocked_reads

pyarrow = pytest.importorskip("pyarrow")


def lines_of(content, end=b"\n"):
    lines = content.split(end)
    return lines[:-1] if lines[-1] == b"" else lines


def values(table):
    return table["record"].to_pylist()


@pytest.mark.parametrize("kind", [None, "binary_view", "string_view", "binary", "string"])
@pytest.mark.parametrize("block", [1, 100, 4096, 1 << 20, 1 << 24])
def test_records_are_the_lines(text, kind, block):
    path, content = text
    if block < 4096:
        content = content[:50_000]
        path.write_bytes(content)
    schema = kind and pyarrow.schema([("record", kind)])
    reader = pyarrow.RecordBatchReader.from_stream(blocked_reads(path, block, b"\n"), schema)
    table = reader.read_all()
    table.validate(full=True)
    found = values(table)
    if kind in ("string", "string_view"):
        found = [line.encode() for line in found]
    assert found == lines_of(content)
    assert table.schema.field("record").type == pyarrow.schema([("record", kind or "binary_view")]).field(0).type


def test_views_show_the_memory_of_blocks(text):
    path, content = text
    for batch in pyarrow.RecordBatchReader.from_stream(blocked_reads(path, records=b"\n")):
        views, data = batch["record"].buffers()[1:]
        assert data.size <= len(content) + 200 and data.to_pybytes() in content
        # An inline copy has the first 12 bytes of a line; a longer one lies in the block.
        line = next(value for value in batch["record"] if len(value.as_py()) > 12).as_py()
        assert line in data.to_pybytes()
    # Those of a fixed length are the block itself.
    path.write_bytes(content := os.urandom(48 * 10_000))
    table = pyarrow.table(blocked_reads(path, records=48))
    assert b"".join(values(table)) == content and table.schema.field(0).type == pyarrow.binary(48)


def test_odd_files(tmp_path):
    for content in (b"", b"\n", b"\n\n", b"a", b"a\nb", b"a" * 13 + b"\n" + b"b" * 100_000 + b"\n", b"\n" * 5000):
        path = tmp_path / "odd"
        path.write_bytes(content)
        for block in (1, 7, 1 << 20):
            assert values(pyarrow.table(blocked_reads(path, block, b"\n"))) == lines_of(content)
    (tmp_path / "lines.gz").write_bytes(gzip.compress(b"one\ntwo\n" * 1000))
    both = blocked_reads([tmp_path / "odd", tmp_path / "odd"], records=b"\x00")
    assert values(pyarrow.table(both)) == [b"\n" * 5000] * 2
    path.write_bytes(b"a;b;c")
    assert values(pyarrow.table(blocked_reads(path, records=b";"))) == [b"a", b"b", b"c"]


def test_what_cannot_be_a_table_is_said(tmp_path, text):
    path, _ = text
    with pytest.raises(ValueError, match="blocks without records are not a table; give blocked_reads records="):
        pyarrow.table(blocked_reads(path))
    (tmp_path / "odd").write_bytes(b"x" * 100)
    with pytest.raises(Exception, match="48"):
        pyarrow.table(blocked_reads(tmp_path / "odd", records=48))
    (tmp_path / "latin").write_bytes(b"\xe4\xe4\xe4\n")
    for kind in ("string", "string_view"):
        with pytest.raises(Exception, match="(?i)utf-?8"):
            schema = pyarrow.schema([("record", kind)])
            pyarrow.RecordBatchReader.from_stream(blocked_reads(tmp_path / "latin", records=b"\n"), schema).read_all()
    with pytest.raises(Exception, match="(?i)no such file"):
        pyarrow.table(blocked_reads(tmp_path / "missing", records=b"\n"))
    closed = blocked_reads(path, records=b"\n")
    closed.close()
    with pytest.raises(Exception, match="closed"):
        pyarrow.table(closed)
    # Other requests are left to the consumer.
    other = pyarrow.schema([("record", "int64")])
    reader = pyarrow.RecordBatchReader.from_stream(blocked_reads(path, records=b"\n"), other)
    assert reader.schema.field("record").type == pyarrow.binary_view()


def test_a_stream_outlives_its_iterator_and_takes_what_is_left(text):
    path, content = text
    blocks = blocked_reads(path, 1 << 16, b"\n")
    first = bytes(next(blocks))
    reader = pyarrow.RecordBatchReader.from_stream(blocks)
    del blocks
    gc.collect()
    table = reader.read_all()
    assert lines_of(first) + values(table) == lines_of(content)
    del reader, first
    gc.collect()
    assert len(values(table)) > 0


def test_streams_that_are_left_early_leak_nothing(text):
    path, _ = text

    def once():
        reader = pyarrow.RecordBatchReader.from_stream(blocked_reads(path, 1 << 16, b"\n"))
        next(reader)
        blocked_reads(path, records=b"\n").__arrow_c_stream__()

    for _ in range(50):
        once()
    gc.collect()
    before, threads = resident_bytes(), len(os.listdir("/proc/self/task"))
    for _ in range(300):
        once()
    gc.collect()
    assert resident_bytes() - before < 64 << 20
    assert len(os.listdir("/proc/self/task")) < threads + 20


def test_polars_and_duckdb_count_lines(text):
    path, content = text
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(blocked_reads(path, records=b"\n"))
    assert frame["record"].to_list() == lines_of(content)
    duckdb = pytest.importorskip("duckdb")
    blocks = pyarrow.RecordBatchReader.from_stream(blocked_reads(path, records=b"\n"))
    assert duckdb.sql("select count(*) from blocks").fetchall() == [(len(lines_of(content)),)] and blocks


def test_a_block_stays_valid_beside_its_views(text):
    path, content = text
    blocks = list(blocked_reads(path, 1 << 20))
    views = [memoryview(block) for block in blocks]
    del blocks
    gc.collect()
    list(blocked_reads(path, 1 << 20))
    assert b"".join(views) == content
    assert isinstance(sakiyomi.Block, type)
