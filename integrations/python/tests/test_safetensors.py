"""load_safetensors: arrays are the file's bytes in place, and what is no such file is refused in a sentence."""

import gc
import json
import os
import random
import resource

import pytest
from conftest import evict, resident_bytes

import sakiyomi
from sakiyomi import load_safetensors

numpy = pytest.importorskip("numpy")


def write(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def entry(kind, shape, start, stop):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}


@pytest.fixture
def model(tmp_path):
    numbers = numpy.random.default_rng(1)
    arrays = {
        "weight": numbers.standard_normal((1000, 700)).astype("f4"),
        "bias": numbers.standard_normal(33).astype("f2"),
        "scalar": numpy.array(7, "i8"),
        "empty": numpy.zeros((0, 5), "f8"),
        "mask": numbers.integers(0, 2, 101).astype("?"),
        "complex": numbers.standard_normal(4).astype("c8"),
    }
    names = {"f4": "F32", "f2": "F16", "i8": "I64", "f8": "F64", "b1": "BOOL", "c8": "C64"}
    header, data = {"__metadata__": {"format": "np"}}, b""
    for name, array in arrays.items():
        start, data = len(data), data + array.tobytes()
        header[name] = entry(names[array.dtype.str[1:]], list(array.shape), start, len(data))
    return write(tmp_path / "model", header, data), arrays


@pytest.mark.parametrize("cached", [True, False])
def test_tensors_are_those_that_were_written(model, cached):
    path, arrays = model
    if not cached:
        evict(path)
    loaded = load_safetensors(path)
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert numpy.array_equal(loaded[name], array)


def test_names_are_loaded_in_the_order_that_is_asked_for(model):
    path, arrays = model
    loaded = load_safetensors(path, iter(["scalar", "bias"]))
    assert list(loaded) == ["scalar", "bias"] and loaded["scalar"] == 7
    with pytest.raises(KeyError, match="has no tensor 'other'; it has 'bias', 'complex', .* and 1 more"):
        load_safetensors(path, ["bias", "other"])
    assert load_safetensors(path, []) == {}


def test_arrays_show_one_mapping_and_outlive_the_file(model):
    path, arrays = model
    loaded = load_safetensors(path)
    offset = int.from_bytes(path.read_bytes()[:8], "little") + 8
    bias = loaded["bias"].ctypes.data - loaded["weight"].ctypes.data
    assert bias == arrays["weight"].nbytes and (loaded["weight"].ctypes.data - offset) % 4096 == 0
    assert not loaded["weight"].flags.writeable
    os.unlink(path)
    kept = loaded.pop("weight")
    del loaded
    gc.collect()
    assert numpy.array_equal(kept, arrays["weight"])


def test_what_is_loaded_stays_when_another_program_drops_the_cache(tmp_path):
    size = 8 << 20
    path = write(tmp_path / "large", {"x": entry("U8", [size], 0, size)}, bytes(size))
    evict(path)
    loaded = load_safetensors(path)
    # The code of NumPy, too, may have been reclaimed.
    assert not numpy.zeros(size, "u1").any()
    evict(path)
    before = resource.getrusage(resource.RUSAGE_SELF)
    assert not loaded["x"].any()
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_majflt == before.ru_majflt, "all pages are in memory"
    # numpy's own memory has some faults; the file would have at least one for each 64 KiB.
    assert after.ru_minflt - before.ru_minflt < size >> 17


def test_types_that_numpy_has_not(tmp_path):
    path = write(tmp_path / "half", {"x": entry("BF16", [2], 0, 4)}, b"\x80\x3f\x00\x40")
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match="'x' of .* has the type BF16, which NumPy has not; install"):
            load_safetensors(path)
    else:
        assert load_safetensors(path)["x"].astype("f4").tolist() == [1, 2]


@pytest.mark.parametrize(
    "header, data, sentence",
    [
        (b"no json", b"", "its header is not JSON"),
        (b"\xff", b"", "its header is not JSON"),
        (b"[" * 100_000, b"", "its header is not JSON"),
        ([], b"", "not an object of JSON"),
        ({"x": 3}, b"", "has no dtype, shape and data_offsets"),
        ({"x": entry("F31", [1], 0, 4)}, b"1234", "unknown type 'F31'"),
        ({"x": entry(["F32"], [1], 0, 4)}, b"1234", "unknown type"),
        ({"x": entry("F32", [-1], 0, 4)}, b"1234", "not whole numbers"),
        ({"x": entry("F32", [True], 0, 4)}, b"1234", "not whole numbers"),
        ({"x": entry("F32", [1], 0, 8)}, b"1234", "has the bytes 0 to 8 of 4"),
        ({"x": entry("F32", [1], 4, 0)}, b"1234", "has the bytes 4 to 0 of 4"),
        ({"x": entry("F32", [2], 0, 4)}, b"1234", "of 2 numbers of 4 bytes has 4 bytes"),
        ({"x": entry("F32", [2**70], 0, 4)}, b"1234", "numbers of 4 bytes has 4 bytes"),
        ({"x": entry("U8", [2], 0, 2), "y": entry("U8", [3], 1, 4)}, b"1234", "'y' begins at byte 1"),
        ({"x": entry("U8", [1], 0, 1), "y": entry("U8", [1], 3, 4)}, b"1234", "'y' begins at byte 3"),
        ({"x": entry("U8", [1], 0, 1)}, b"1234", "its tensors have 1 bytes, and it has 4"),
    ],
)
def test_another_file_is_refused_in_a_sentence(tmp_path, header, data, sentence):
    with pytest.raises(sakiyomi.Error, match=f"is not a safetensors file: .*{sentence}"):
        load_safetensors(write(tmp_path / "wrong", header, data))


def test_files_that_are_too_short_missing_or_directories(tmp_path):
    path = tmp_path / "file"
    for content, sentence in [(b"", "it has 0 bytes"), (b"1234567", "7 bytes"), (b"\xff" * 9, "more than 100000000")]:
        path.write_bytes(content)
        with pytest.raises(sakiyomi.Error, match=sentence):
            load_safetensors(path)
    with pytest.raises(sakiyomi.Error, match="its header alone would have 1000"):
        load_safetensors(write(path, {}, length=1000))
    assert load_safetensors(write(path, {})) == {}
    with pytest.raises(FileNotFoundError):
        load_safetensors(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        load_safetensors(tmp_path)


def test_any_change_of_a_byte_is_read_or_refused(model):
    path, _ = model
    content = bytearray(path.read_bytes())
    numbers = random.Random(3)
    for _ in range(1000):
        at = numbers.randrange(int.from_bytes(content[:8], "little") + 8)
        before, content[at] = content[at], numbers.randrange(256)
        path.write_bytes(content[:2000] if numbers.randrange(10) == 0 else content)
        try:
            load_safetensors(path)
        except sakiyomi.Error:
            pass
        content[at] = before


def test_no_memory_is_lost(model):
    path, _ = model
    for _ in range(200):
        load_safetensors(path)
    before, files = resident_bytes(), len(os.listdir("/proc/self/fd"))
    for _ in range(2000):
        load_safetensors(path)
    assert resident_bytes() - before < 16 << 20
    assert len(os.listdir("/proc/self/fd")) <= files + 2
