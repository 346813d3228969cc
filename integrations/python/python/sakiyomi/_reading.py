"""Reading: blocks, files that are read ahead, and ranges."""

import io
import os
import stat
from collections.abc import Iterable
from typing import Any, TypeAlias

from sakiyomi._native import BlockedReads, Prefetch, Reader

PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# A read of the reader below is at least as large, so that its own buffer is passed over.
_BUFFER_BYTES = 256 << 10


def blocked_reads(
    paths: PathLike | Iterable[PathLike],
    block: int | None = None,
    records: bytes | int | None = None,
    *,
    threads: int | None = None,
) -> BlockedReads:
    """Return an iterator over the blocks of files, which are read ahead while Python computes.

    paths: a path, or several, which are read in this order. Pipes and devices can be read too.
    block: bytes of a block (1 MiB); only the last block of a file is shorter.
    records: the byte that ends a record, such as ``b"\\n"``, or the length of a record in bytes. Blocks then are whole
        records, as many as fit into ``block`` but at least one; their sizes depend on what is cached.
    threads: threads that read (as many as there are cores).

    A block has the buffer protocol, and its ``offset``, ``number``, ``file`` (its number) and ``path``. Its memory is used
    in place by ``memoryview``, NumPy, ``re``, ``hashlib`` and pyarrow, is read-only, and valid for as long as anything
    refers to it, also after the iteration. Up to 32 MiB, or a few large blocks, are read ahead.

    The first file is opened by another thread: an error, such as FileNotFoundError, is raised by the iteration, in the
    place of the block that could not be read, and ends it. An iterator that is left early ends its reading when it is
    closed (``close()`` or ``with``) or collected.

    Several threads can share an iterator: each block goes to one of them. A forked process makes its own.

    >>> total = 0
    >>> for block in blocked_reads(["a.log", "b.log"], records=b"\\n"):  # doctest: +SKIP
    ...     total += block.count(b"\\n")
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        paths = (paths,)
    return BlockedReads(tuple(os.fsdecode(path) for path in paths), block, records, threads)


class AheadFile(io.RawIOBase):
    """An unbuffered binary file that is read ahead; ``open_ahead`` returns it with a buffer.

    A thread watches the position and the waits, and has the page cache filled ahead, as far as it pays. It is started only
    when a read has had to wait.
    """

    # A buffer over a file that is not CPython's own asks for `closed` at each line, for which the property of RawIOBase takes
    # as long as all else of a short line. A slot is found at once.
    __slots__ = ("closed",)
    closed: bool

    def __init__(
        self,
        path: PathLike,
        *,
        limit: int | None = None,
        step: int | None = None,
        memory: int | None = None,
    ) -> None:
        self.closed = False
        self.name = path
        self._reader = Reader(os.fsdecode(path), limit, step, memory)

    mode = "rb"

    def readable(self) -> bool:
        self._check()
        return True

    def seekable(self) -> bool:
        self._check()
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer until it is full or the file ends; return the number of bytes."""
        return self._reader.readinto(buffer)

    def readall(self) -> bytes:
        """Read all that is left."""
        return self._reader.readall()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move the position; return it, in bytes from the beginning."""
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        """Return the position, in bytes from the beginning."""
        return self._reader.tell()

    def statistics(self) -> dict[str, int]:
        """Return the figures so far.

        ``read_bytes``: bytes read; ``prefetched_bytes``: bytes of these that were read ahead and not cached before;
        ``waits``, ``io_wait_ns``: number and time of the reads that waited; ``io_hidden_ns``: time that would have been
        waited besides without prefetching, an estimate; ``ahead_bytes``: bytes that are requested ahead now.
        """
        return self._reader.statistics()

    def close(self) -> None:
        """Close the file, and end the reading ahead."""
        if not self.closed:
            try:
                super().close()
            finally:
                self.closed = True
                # Without one, its making has failed.
                if (reader := getattr(self, "_reader", None)) is not None:
                    reader.close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle an open file; open it again by its path")

    def __repr__(self) -> str:
        return f"<sakiyomi.AheadFile {'closed ' if self.closed else ''}name={self.name!r}>"


def open_ahead(
    path: PathLike,
    *,
    limit: int | None = None,
    step: int | None = None,
    memory: int | None = None,
) -> io.BufferedReader:
    """Open a binary file that is read ahead of the program.

    It is an ``io.BufferedReader``: pass it to ``pandas.read_csv``, ``pickle.load``, ``json.load`` or
    ``tarfile.open(fileobj=...)``, iterate over its lines, or wrap it in ``io.TextIOWrapper``. Its ``raw`` is an
    ``AheadFile``, whose ``statistics()`` say what was gained. Pipes and terminals, which have no positions, are opened as by
    ``open(path, "rb")``.

    limit: bytes that are requested ahead at most (512 MiB).
    step: with it the distance is fixed: ``step`` bytes are requested at a time, unless ``limit`` lie ahead. Without, it is
        adapted to the program.
    memory: limit of the memory for data ahead of the program (a quarter of what is available).

    Reads return what the kernel returns at that moment, so a file that is written to meanwhile reads as without this.

    >>> with open_ahead("large.csv") as file:  # doctest: +SKIP
    ...     frame = pandas.read_csv(file)
    ...     print(file.raw.statistics()["io_hidden_ns"])
    """
    kind = os.stat(path).st_mode
    if not (stat.S_ISREG(kind) or stat.S_ISBLK(kind) or stat.S_ISDIR(kind)):
        return open(path, "rb")
    return io.BufferedReader(AheadFile(path, limit=limit, step=step, memory=memory), _BUFFER_BYTES)


def prefetch(
    path: PathLike,
    ranges: Iterable[tuple[int, int]],
    *,
    memory: int | None = None,
) -> Prefetch:
    """Read ranges of a file into the page cache in the given order, ahead of the program.

    ranges: pairs ``(start, stop)`` of offsets in bytes, in the order in which the program will read them; they may repeat
        and overlap, and are cut at the end of the file.
    memory: bytes that are requested ahead of the program at most, at least 64 KiB (a quarter of what is available).

    Wait for a range, read it by any means, and report that it was used:

    >>> order = [(4096, 8192), (0, 4096)]
    >>> with prefetch("samples.bin", order) as ahead, open("samples.bin", "rb") as file:  # doctest: +SKIP
    ...     for index, (start, stop) in enumerate(order):
    ...         ahead.wait(index)
    ...         file.seek(start)
    ...         use(file.read(stop - start))
    ...         ahead.advance(index + 1)
    """
    return Prefetch(os.fsdecode(path), [(start, stop) for start, stop in ranges], memory)
