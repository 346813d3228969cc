"""The file system of fsspec: files that are read ahead, and all else as in the local one."""

import gzip
import pickle

import pytest

import sakiyomi

fsspec = pytest.importorskip("fsspec")


def test_a_file_is_read_ahead_by_its_address(text):
    path, content = text
    with fsspec.open(f"sakiyomi://{path}") as file:
        assert isinstance(file.raw, sakiyomi.AheadFile)
        assert file.read() == content
        assert file.seek(10) == 10 and file.read(5) == content[10:15]
        assert file.raw.statistics()["read_bytes"] >= len(content)
    with fsspec.open(f"sakiyomi://{path}", "rt") as file:
        assert file.read().encode() == content


def test_all_else_is_that_of_the_local_file_system(tmp_path, text):
    path, content = text
    files = fsspec.filesystem("sakiyomi", memory=1 << 20)
    assert type(files).__module__ == "sakiyomi.filesystem"
    assert files.size(str(path)) == len(content) and files.cat_file(f"sakiyomi://{path}", 5, 20) == content[5:20]
    with files.open(f"sakiyomi://{tmp_path}/new", "wb") as file:
        file.write(b"abc")
    assert files.cat(str(tmp_path / "new")) == b"abc"
    with fsspec.open(f"sakiyomi://{tmp_path}/new.gz", "wb", compression="gzip") as file:
        file.write(b"abc")
    assert gzip.decompress((tmp_path / "new.gz").read_bytes()) == b"abc"
    with fsspec.open(f"sakiyomi://{tmp_path}/new.gz", compression="infer") as file:
        assert file.read() == b"abc"
    assert sorted(files.glob(f"sakiyomi://{tmp_path}/new*")) == [str(tmp_path / "new"), str(tmp_path / "new.gz")]
    assert files.unstrip_protocol(str(path)) == f"sakiyomi://{path}"
    assert fsspec.get_mapper(f"sakiyomi://{tmp_path}")["new"] == b"abc"
    copy = pickle.loads(pickle.dumps(files))
    assert copy.open(str(path)).read(3) == content[:3]
    with pytest.raises(FileNotFoundError):
        files.open(str(tmp_path / "missing"))
    with pytest.raises(IsADirectoryError):
        files.open(str(tmp_path))


def test_pandas_polars_and_pyarrow_take_it(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("a,b\n" + "".join(f"{number},{number % 7}\n" for number in range(10_000)))
    pandas = pytest.importorskip("pandas")
    assert pandas.read_csv(f"sakiyomi://{path}")["a"].sum() == sum(range(10_000))
    dataset = pytest.importorskip("pyarrow.dataset")
    files = fsspec.filesystem("sakiyomi")
    assert dataset.dataset(str(path), format="csv", filesystem=files).to_table().num_rows == 10_000


def test_fsspec_is_imported_only_when_it_is_used():
    import subprocess
    import sys

    code = "import sys, sakiyomi; print('fsspec' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=-1, check=True, text=True).stdout == "False\n"
