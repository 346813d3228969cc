"""Commands whose files are read ahead."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sakiyomi._native import Error
from sakiyomi._result import RunResult

if TYPE_CHECKING:
    import subprocess


def run(
    command: Sequence[str | bytes | os.PathLike[str] | os.PathLike[bytes]],
    *,
    limit: str | int | None = None,
    step: str | int | None = None,
    memory: str | int | None = None,
    dry_run: bool = False,
    learn: bool | None = None,
    check: bool = False,
    **popen: Any,
) -> RunResult:
    """Run a command, prefetch the files that it reads, and return the report.

    This calls the program ``sakiyomi``, which must be in ``PATH``: the package does not contain it.

    command: the program and its arguments; it runs unmodified, with the standard streams of this process.
    limit, step, memory, dry_run, learn: the options of ``sakiyomi run`` (``learn`` False is ``--no-learn``). Sizes are
        bytes, or strings such as ``"64MiB"``.
    check: raise ``subprocess.CalledProcessError`` if the command fails. Its status is ``exit_code`` or ``signal`` of the
        result.
    popen: further arguments of ``subprocess.Popen``, such as ``stdout``, ``cwd`` and ``env``.

    Ctrl-C reaches the command, as in a terminal, and is raised when it has ended.

    >>> report = run(["gzip", "-k", "big.tar"])  # doctest: +SKIP
    >>> report.io_wait_ns, report.prefetched_bytes  # doctest: +SKIP
    (120000000, 1073741824)
    """
    # Not at the import of the package, which they would make several times as long.
    import shutil
    import subprocess
    import tempfile
    from pathlib import Path

    if isinstance(command, (str, bytes)) or not command:
        raise TypeError(f"the command is {command!r}; give a list of the program and its arguments")
    environment = popen.get("env")
    path = (os.environ if environment is None else environment).get("PATH")
    program = shutil.which("sakiyomi", path=path)
    if program is None:
        raise Error(
            "the program sakiyomi is not in PATH, and run() calls it; build it by `cargo build --release` and put "
            "target/release into PATH"
        )
    options: list[str] = []
    for name, value in [("limit", limit), ("step", step), ("memory", memory)]:
        options += [] if value is None else [f"--{name}", str(value)]
    options += ["--dry-run"] if dry_run else []
    options += [] if learn is None else ["--learn" if learn else "--no-learn"]
    with tempfile.TemporaryDirectory(prefix="sakiyomi-run-") as out:
        words = [program, "run", "--quiet", "--out", out, *options, "--", *command]
        with subprocess.Popen(words, **popen) as process:
            status = _wait(process)
        result = Path(out, "result.json")
        if not result.exists():
            raise Error(
                f"sakiyomi run has made no report, and has ended with status {status}; its message is on standard error"
            )
        report = RunResult(result.read_text("utf-8"))
    if check and status != 0:
        raise subprocess.CalledProcessError(status, list(command))
    return report


def _wait(process: "subprocess.Popen[Any]") -> int:
    """Wait for the end; after Ctrl-C, which a terminal has sent to the command as well, wait and raise it."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        import signal

        # One that came from elsewhere, such as a notebook, has not reached it.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
