"""Files of a package, and archives of them: the same bytes for the same files, whoever packs them, where and when."""

import gzip
import io
import lzma
import tarfile
from dataclasses import dataclass, field


@dataclass
class Tree:
    """Files by their path in a package, without a leading slash. Directories follow from them."""

    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)  # mode, content
    links: dict[str, str] = field(default_factory=dict)  # symbolic, to

    def add(self, path, content, mode=0o644):
        self.files[path] = (mode, content.encode() if isinstance(content, str) else content)

    def add_all(self, directory, under=""):
        """Adds what lies in a directory of this machine. Of its modes only the right to execute counts."""
        for path in sorted(directory.rglob("*")):
            name = under + str(path.relative_to(directory))
            if path.is_symlink():
                self.links[name] = str(path.readlink())
            elif path.is_file():
                self.add(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)

    def directories(self):
        above = set()
        for path in [*self.files, *self.links]:
            parts = path.split("/")[:-1]
            above.update("/".join(parts[: n + 1]) for n in range(len(parts)))
        return above

    def installed_bytes(self):
        return sum(len(content) for _, content in self.files.values())

    def tar(self, epoch, prefix=""):
        """A tar archive in the order of the paths, owned by root, with one time for all."""
        entries = [(path, "d") for path in self.directories()]
        entries += [(path, "f") for path in self.files] + [(path, "l") for path in self.links]
        if prefix:
            entries.append(("", "d"))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path, kind in sorted(entries):
                info = tarfile.TarInfo((prefix + path).rstrip("/"))
                info.mtime, info.uname, info.gname = epoch, "root", "root"
                content = None
                if kind == "d":
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                elif kind == "l":
                    info.type, info.mode, info.linkname = tarfile.SYMTYPE, 0o777, self.links[path]
                else:
                    info.mode, content = self.files[path]
                    info.size = len(content)
                archive.addfile(info, io.BytesIO(content) if content is not None else None)
        return packed.getvalue()


def gzipped(content):
    """As `gzip -9n`: without a name and a time."""
    content = content.encode() if isinstance(content, str) else content
    return gzip.compress(content, 9, mtime=0)


def xz(content):
    return lzma.compress(content, preset=6)


def ar(members, epoch):
    """An archive of `ar`, which a Debian package is: pairs of name and content."""
    packed = io.BytesIO()
    packed.write(b"!<arch>\n")
    for name, content in members:
        packed.write(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
        packed.write(content + b"\n" * (len(content) % 2))
    return packed.getvalue()
