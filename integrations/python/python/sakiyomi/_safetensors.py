"""Tensors of safetensors files as NumPy arrays."""

import json
import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sakiyomi._native import Error, MappedFile
from sakiyomi._reading import PathLike

if TYPE_CHECKING:
    import numpy

# The limit of the format's own library: a larger header is another kind of file.
_HEADER_MAX_BYTES = 100_000_000

# Types of the format: NumPy's name, and the bytes of a number.
_NUMPY_TYPES = {
    "BOOL": ("?", 1),
    "U8": ("u1", 1),
    "I8": ("i1", 1),
    "U16": ("<u2", 2),
    "I16": ("<i2", 2),
    "F16": ("<f2", 2),
    "U32": ("<u4", 4),
    "I32": ("<i4", 4),
    "F32": ("<f4", 4),
    "U64": ("<u8", 8),
    "I64": ("<i8", 8),
    "F64": ("<f8", 8),
    "C64": ("<c8", 8),
}
# Those of the package ml_dtypes.
_ML_TYPES = {"BF16": ("bfloat16", 2), "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1)}


def load_safetensors(
    path: PathLike,
    names: Iterable[str] | None = None,
    *,
    memory: int | None = None,
) -> "dict[str, numpy.ndarray[Any, Any]]":
    """Load tensors of a safetensors file into NumPy arrays, without a copy.

    names: the tensors, which are read in this order; all of them, in the order of the file, if it is left out.
    memory: bytes that are requested ahead at most (a quarter of the available memory).

    Many requests are in flight, so that the file is read at the speed of its device; when this returns, all pages
    are in memory and mapped, so that accesses do not wait.
    The arrays are read-only views of a mapping of the file, which lives as long as they do; copy what is to be changed.
    Other programs must not write to the file meanwhile; replacing it by renaming is safe.

    BF16 and 8-bit floats need the package ml_dtypes.

    >>> weights = load_safetensors("model.safetensors", ["embed.weight"])  # doctest: +SKIP
    >>> weights["embed.weight"].shape  # doctest: +SKIP
    (32000, 4096)
    """
    try:
        import numpy
    except ImportError as error:
        raise ImportError("load_safetensors needs NumPy; install the package numpy") from error
    tensors, data = _read_header(os.fsdecode(path))
    if names is None:
        names = sorted(tensors, key=lambda name: tensors[name][2])
    else:
        names = list(names)
        for name in names:
            if name not in tensors:
                raise KeyError(f"{os.fsdecode(path)} has no tensor {name!r}; it has {_some(tensors)}")
    types = {name: _dtype(numpy, path, name, tensors[name][0]) for name in names}
    ranges = [(data + tensors[name][2], data + tensors[name][3]) for name in names]
    mapped = MappedFile(os.fsdecode(path), ranges, memory)
    arrays = {}
    for index, name in enumerate(names):
        _, shape, start, stop = tensors[name]
        if start == stop:
            arrays[name] = numpy.empty(shape, types[name])
        else:
            arrays[name] = numpy.frombuffer(memoryview(mapped.range(index)), types[name]).reshape(shape)
    return arrays


def _some(names: Iterable[str]) -> str:
    names = sorted(names)
    return ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _dtype(numpy: Any, path: PathLike, name: str, kind: str) -> Any:
    if kind in _NUMPY_TYPES:
        return numpy.dtype(_NUMPY_TYPES[kind][0])
    try:
        import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError(
            f"the tensor {name!r} of {os.fsdecode(path)} has the type {kind}, which NumPy has not; "
            "install the package ml_dtypes"
        ) from error
    return numpy.dtype(getattr(ml_dtypes, _ML_TYPES[kind][0]))


def _read_header(path: str) -> tuple[dict[str, tuple[str, tuple[int, ...], int, int]], int]:
    """Return type, shape and range of each tensor, and where the ranges begin."""

    def wrong(what: str) -> Error:
        return Error(f"{path} is not a safetensors file: {what}")

    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(8)
        if len(head) < 8:
            raise wrong(f"it has {size} bytes, less than the length of a header")
        length = int.from_bytes(head, "little")
        if length > _HEADER_MAX_BYTES:
            raise wrong(f"its header would have {length} bytes, more than {_HEADER_MAX_BYTES}")
        text = file.read(length)
        if len(text) < length:
            raise wrong(f"it has {size} bytes, and its header alone would have {length}")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong(f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise wrong("its header is not an object of JSON")
    header.pop("__metadata__", None)
    data = 8 + length
    tensors = {}
    for name, entry in header.items():
        tensors[name] = _entry(name, entry, size - data, wrong)
    end = 0
    for name, (_, _, start, stop) in sorted(tensors.items(), key=lambda tensor: tensor[1][2:]):
        if start != end:
            raise wrong(f"the tensor {name!r} begins at byte {start} of the data, and the one before it ends at {end}")
        end = stop
    if end != size - data:
        raise wrong(f"its tensors have {end} bytes, and it has {size - data} bytes of data")
    return tensors, data


def _entry(name: str, entry: Any, size: int, wrong: Any) -> tuple[str, tuple[int, ...], int, int]:
    def whole(numbers: Any) -> bool:
        return isinstance(numbers, list) and all(type(number) is int and number >= 0 for number in numbers)

    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise wrong(f"the tensor {name!r} has no dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _NUMPY_TYPES | _ML_TYPES:
        raise wrong(f"the tensor {name!r} has the unknown type {kind!r}")
    _, width = (_NUMPY_TYPES | _ML_TYPES)[kind]
    if not whole(shape) or not whole(offsets) or len(offsets) != 2:
        raise wrong(f"shape or data_offsets of the tensor {name!r} are not whole numbers")
    start, stop = offsets
    if not start <= stop <= size:
        raise wrong(f"the tensor {name!r} has the bytes {start} to {stop} of {size}")
    if math.prod(shape) * width != stop - start:
        raise wrong(f"the tensor {name!r} of {math.prod(shape)} numbers of {width} bytes has {stop - start} bytes")
    return kind, tuple(shape), start, stop
