"""run: the report of a command, its status, and what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_simulation import command

import sakiyomi
from sakiyomi import run


@pytest.fixture
def program(monkeypatch):
    """Have the program in PATH."""
    directory = Path(command()).resolve().parent
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def test_the_report_is_that_of_the_command(program, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3_000_000)
    with open(tmp_path / "out", "wb") as out:
        report = run(["cat", path], stdout=out, learn=False)
    assert (tmp_path / "out").stat().st_size == 3_000_000
    assert report.exit_code == 0 and report.program == ["cat", str(path)] and report.elapsed_ns > 0
    assert report.to_html().startswith("<!DOCTYPE html>") and repr(report).startswith("<RunResult of ")


def test_the_status_of_the_command_is_in_the_report(program):
    assert run([sys.executable, "-c", "exit(3)"]).exit_code == 3
    assert run(["sh", "-c", "kill -9 $$"]).signal == 9
    with pytest.raises(subprocess.CalledProcessError):
        run(["false"], check=True)
    with pytest.raises(sakiyomi.Error, match="has made no report, and has ended with status 127"):
        run(["/no/such/program"])
    with pytest.raises(sakiyomi.Error, match="status 125"):
        run(["true"], step="1MiB")


def test_without_the_program_that_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sakiyomi.Error, match="the program sakiyomi is not in PATH"):
        run(["true"])
    for wrong in ["true", b"true", []]:
        with pytest.raises(TypeError, match="give a list"):
            run(wrong)
