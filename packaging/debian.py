"""The Debian package of the command, without Debian's tools: any machine that compiles it can make it."""

import hashlib
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from archive import Tree, ar, gzipped, xz

HERE = Path(__file__).resolve().parent / "debian"
# Of the packaging; a release of the same version that is packaged again gets the next one.
REVISION = 1
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# The packages of what a program loads, as the loader names it.
LIBRARIES = {"libc.so.6": "libc6", "libm.so.6": "libc6", "libgcc_s.so.1": "libgcc-s1"}
DESCRIPTION = """\
shows, hides, bounds and predicts the time of I/O
 Programs wait for I/O. sakiyomi shows why (explain, probe), hides the waiting
 behind computation by prefetching for unmodified programs (run, daemon), keeps
 the I/O time of a process constant beside others (iorate), and predicts it for
 other drives (sim, whatif, scenario). It emulates drives as mounts and as NBD
 block devices, and counts, sorts, joins and streams with the same I/O.
 .
 Mounts by users other than root need fusermount3.
"""


def architecture():
    return ARCHITECTURES[platform.machine()]


def maintainer():
    """Debian's own variables name who packages it. The project has no address of its own yet."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    return f"{name or 'The sakiyomi developers'} <{address or 'sakiyomi@packages.invalid'}>"


def depends(program):
    """Packages and their least versions, by the libraries that a program loads and the versions of its symbols."""
    env = {**os.environ, "LC_ALL": "C"}
    read = subprocess.run(["readelf", "-dV", program], stdout=subprocess.PIPE, text=True, check=True, env=env).stdout
    names = re.findall(r"\(NEEDED\).*\[(.*)\]", read)
    versions = {}
    for name in names:
        if not name.startswith("ld-linux"):
            versions.setdefault(LIBRARIES[name], None)
    symbols = [tuple(map(int, it.split("."))) for it in re.findall(r"\bGLIBC_([0-9.]+)", read)]
    if symbols:
        versions["libc6"] = ".".join(map(str, max(symbols)))
    return ", ".join(f"{name} (>= {least})" if least else name for name, least in sorted(versions.items()))


def version(upstream):
    return f"{upstream}-{REVISION}"


def package(program, shared, upstream, epoch):
    """The bytes of the package. `shared` has what other packages have too: pages, completions, documents."""
    tree = Tree()
    tree.add("usr/bin/sakiyomi", program.read_bytes(), 0o755)
    for path, (mode, content) in shared.files.items():
        doc = path.startswith("share/doc/")
        # Debian wants the license in `copyright`, and other documents compressed.
        if doc and Path(path).name.startswith("LICENSE"):
            continue
        tree.add(f"usr/{path}.gz" if doc else f"usr/{path}", gzipped(content) if doc else content, mode)
    zsh = tree.files.pop("usr/share/zsh/site-functions/_sakiyomi")
    tree.files["usr/share/zsh/vendor-completions/_sakiyomi"] = zsh
    about = "usr/share/doc/sakiyomi"
    tree.files[f"{about}/changelog.gz"] = tree.files.pop(f"{about}/CHANGELOG.md.gz")
    tree.add(f"{about}/changelog.Debian.gz", gzipped(changelog(upstream, epoch)))
    tree.add(f"{about}/copyright", copyright_file())
    overrides = (HERE / "lintian-overrides").read_text()
    tree.add("usr/share/lintian/overrides/sakiyomi", overrides)

    sums = ((hashlib.md5(content, usedforsecurity=False).hexdigest(), path) for path, (_, content) in tree.files.items())
    control = Tree()
    control.add("control", control_file(tree, depends(program), upstream))
    control.add("md5sums", "".join(f"{digest}  {path}\n" for digest, path in sorted(sums, key=lambda it: it[1])))
    for script in ["postinst", "prerm", "postrm"]:
        control.add(script, (HERE / script).read_bytes(), 0o755)
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", xz(control.tar(epoch, "./"))),
        ("data.tar.xz", xz(tree.tar(epoch, "./"))),
    ]
    return ar(members, epoch)


def control_file(tree, needs, upstream):
    kib = -(-tree.installed_bytes() // 1024)
    fields = {
        "Package": "sakiyomi",
        "Version": version(upstream),
        "Architecture": architecture(),
        "Maintainer": maintainer(),
        "Installed-Size": kib,
        "Depends": needs,
        "Recommends": "fuse3",
        "Section": "utils",
        "Priority": "optional",
        "Description": DESCRIPTION.rstrip(),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def changelog(upstream, epoch):
    date = datetime.fromtimestamp(epoch, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
    return (
        f"sakiyomi ({version(upstream)}) unstable; urgency=medium\n\n"
        f"  * Version {upstream}; /usr/share/doc/sakiyomi/changelog.gz has what changed.\n\n"
        f" -- {maintainer()}  {date}\n"
    )


def copyright_file():
    # The text from the permission on, as a continued field: indented, empty lines as a dot.
    text = (HERE.parent.parent / "LICENSE-MIT").read_text().split("\n\n", 2)[2]
    lines = (f" {line}".rstrip() or " ." for line in text.strip().splitlines())
    return (HERE / "copyright").read_text().replace("@MIT@", "\n".join(lines))
