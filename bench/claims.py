"""The claims of README.md and docs/: the page docs/results/claims.md, and whether each claim holds.

bench/claims.toml is a list of `[[claim]]`:

    page      the document; a claim without one is of the same document as the claim before
    text      words of it, exactly, but for line breaks
    result    what was measured: "NAME | TABLE | ROW" of bench/results/NAME.json, where ROW is a row's first cell (or its
              first cells with ` / ` between), or "NAME | notes"; or a list of these
    figures   numbers of the text that are measured: each must be the rounding of one that stands there
    values    numbers or words that stand there, from which the text follows in another way, such as a ratio
    test      a test that holds it, by the name of its function; or a list
    code      "FILE | WORDS": a file, and words of it that say the same, such as the definition of a limit
    command   what shows it. Without it: the command of the result, or that which runs the test
    value, date
              what the command has shown, and when; only without `result`, `test` and `code`

`result` needs `figures` or `values`. A fault is a text that is not on its page, a command whose program, script, example or
subcommand does not exist, a test or words of code that are not found, and a figure that its result does not have.
"""

import functools
import re
import subprocess
import tomllib
from decimal import Decimal
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEYS = {"page", "text", "result", "figures", "values", "test", "code", "command", "value", "date"}
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
UNKNOWN = "not recorded"
# Programs of others in commands of results.
PROGRAMS = {"sort", "/usr/bin/time", "python", "sudo"}


def listed(value):
    return value if isinstance(value, list) else [value]


def joined(text):
    """Text without line breaks, and without the marks of quotations and comments at their beginnings."""
    return " ".join(re.sub(r"\n[>#/ ]+", " ", text).split())


def numbers(cells):
    """The numbers in cells, as they are written."""
    return [number.replace(",", "") for cell in cells for number in NUMBER.findall(str(cell))]


def rounds_to(number, figure):
    """Whether `figure` is `number`, rounded to the digits that it has."""
    exact, shown = Decimal(number), Decimal(figure)
    return abs(exact - shown) <= Decimal(10) ** shown.as_tuple().exponent / 2


def first_cells(row, count):
    return " / ".join(str(cell) for cell in row[:count])


def row_of(results, place):
    """The cells of a row or of the notes, and the table and the result that have it; raises LookupError."""
    name, *rest = [part.strip() for part in place.split(" | ")]
    result = results[name]
    if rest == ["notes"]:
        return result["notes"], {}, result
    title, first = rest
    table = next((each for each in result["tables"] if each["title"] == title), None)
    if table is None:
        raise LookupError(f"{name}.json has no table {title!r}")
    count = first.count(" / ") + 1
    row = next((each for each in table["rows"] if first_cells(each, count) == first), None)
    if row is None:
        raise LookupError(f"the table {title!r} of {name}.json has no row {first!r}")
    return row, table, result


@functools.cache
def functions():
    """The functions of the Rust and Python code, each with its file."""
    named = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.rs", "*.py"], cwd=ROOT, check=True,
                           capture_output=True, text=True)
    found = {}
    for name in named.stdout.split():
        path = ROOT / name
        if path.exists():
            for function in re.findall(r"\b(?:fn|def) (\w+)", path.read_text()):
                found.setdefault(function, name)
    return found


@functools.cache
def subcommands():
    """The subcommands of the command, by its reference."""
    rows = (ROOT / "docs" / "reference" / "commands.md").read_text().splitlines()
    firsts = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return set(re.findall(r"`([a-z]+)", " ".join(firsts)))


def test_command(name):
    file = functions()[name]
    if file.endswith(".py"):
        return f"pytest {file}::{name}"
    crate = file.split("/")[1]
    package = "sakiyomi" if crate == "cli" else f"sakiyomi-{crate}"
    return f"cargo test -p {package} {name}"


def command_fault(command):
    """What is wrong with a command, or None."""
    words = [word for word in command.split() if "=" not in word or word.startswith("-")]
    if words and words[0] == "sudo":
        words = words[1:]
    program = words[0] if words else ""
    if program in ("python", "python3"):
        program = words[1]
    if "/" in program and not program.startswith("/"):
        return None if (ROOT / program).exists() else f"{program} does not exist"
    if program == "sakiyomi":
        known = subcommands() | {"help"}
        return None if len(words) > 1 and words[1] in known else f"sakiyomi has no command {' '.join(words[1:2])}"
    if program == "cargo":
        for option, place in (("--manifest-path", "{}"), ("--path", "{}")):
            if option in words and not (ROOT / words[words.index(option) + 1]).exists():
                return f"{words[words.index(option) + 1]} does not exist"
        package = words[words.index("-p") + 1] if "-p" in words else None
        folder = "cli" if package == "sakiyomi" else (package or "").removeprefix("sakiyomi-")
        if package and not (ROOT / "crates" / folder).exists():
            return f"the crate {package} does not exist"
        for option, directory in (("--example", "examples"), ("--bench", "benches")):
            if package and option in words:
                name = words[words.index(option) + 1]
                here = ROOT / "crates" / folder / directory
                if not (here / f"{name}.rs").exists() and not (here / name).exists():
                    return f"{package} has no {option[2:]} {name}"
        return None
    return None if program in PROGRAMS or program in ("pytest", "mdbook") else f"unknown program {program!r}"


class Claim:
    """A claim, and what is wrong with it."""

    def __init__(self, entry, page, results):
        self.page, self.text = page, joined(entry.get("text", ""))
        self.faults, self.commands, self.shown, self.date = [], listed(entry.get("command", [])), [], entry.get("date")
        self.files = []
        unknown = entry.keys() - KEYS
        if unknown:
            self.faults.append(f"unknown keys {sorted(unknown)}")
        if not self.text or self.text not in joined((ROOT / page).read_text()):
            self.faults.append("the page does not have this text")
        if "result" in entry:
            self.measured(entry, results)
        for test in listed(entry.get("test", [])):
            if test in functions():
                self.commands.append(test_command(test))
            else:
                self.faults.append(f"the test {test} does not exist")
            self.shown, self.date = self.shown or ["held by the test"], self.date or "each run"
        for code in listed(entry.get("code", [])):
            file, _, words = code.partition(" | ")
            path = ROOT / file
            if not path.exists() or joined(words) not in joined(path.read_text()):
                self.faults.append(f"{file} does not have {words!r}")
            self.shown.append(f"`{words}`")
            self.files += [file] if file not in self.files else []
        if "value" in entry:
            self.shown.append(entry["value"])
        if not self.shown:
            self.faults.append("no result, test, code or value")
        if "value" in entry and not (self.commands and self.date):
            self.faults.append("a value needs its command and date")
        self.faults += [fault for fault in map(command_fault, self.commands) if fault]

    def measured(self, entry, results):
        there, words, conditions = [], [], []
        for place in listed(entry["result"]):
            try:
                row, table, result = row_of(results, place)
            except (LookupError, ValueError) as error:
                self.faults.append(str(error))
                return
            there += numbers(row)
            words.append(joined(" ".join(map(str, row))))
            conditions.append({key: table.get(key, result[key]) for key in ("command", "date")})
        figures, values = entry.get("figures", []), entry.get("values", [])
        for figure in figures:
            exact = next((each for each in there if rounds_to(each, figure.replace(",", ""))), None)
            if figure not in self.text:
                self.faults.append(f"the text does not have {figure}")
            if exact is None:
                self.faults.append(f"{figure} is not in its result, which has {', '.join(there)}")
            self.shown.append(exact or "")
        for value in values:
            if value.replace(",", "") not in there and not (re.search("[a-z]", value) and value in " ".join(words)):
                self.faults.append(f"{value} is not in its result, which has {', '.join(there)}")
            self.shown.append(value)
        if not figures and not values:
            self.faults.append("a result needs figures or values")
        for each in conditions:
            if not entry.get("command"):
                self.commands += [one for one in listed(each["command"]) if one not in self.commands]
            self.date = self.date or each["date"]
        if UNKNOWN in self.commands:
            self.faults.append("the result does not record its command")

    def row(self):
        def cell(text):
            return text.replace("|", "\\|")

        commands = "<br>".join(f"`{cell(each)}`" for each in [*self.commands, *self.files])
        date = "" if self.date in (None, UNKNOWN) else self.date
        return f"| {cell(self.text)} | {commands} | {cell('; '.join(self.shown))} | {date} |"


HEAD = """# Claims and their evidence

<!-- Generated by bench/results.py from bench/claims.toml. Do not edit. -->

Results. The figures and limits in README.md and the pages: the quoted text, the command that reproduces the figure, and
the last measured value. The page of a result gives its machine and load; claims without a date have no recorded one.
Limits refer to the line of code that sets them. `bench/results.py --check` fails if a page does not contain its quoted
text, if a script, test or line of code does not exist, or if a figure differs from its result.
"""


def page_and_faults(results):
    """The page, and what is wrong, a line for each fault."""
    entries = tomllib.loads((ROOT / "bench" / "claims.toml").read_text())["claim"]
    page, claims = None, []
    for entry in entries:
        page = entry.get("page", page)
        claims.append(Claim(entry, page, results))
    faults = [f"{claim.page}: {claim.text[:60]!r}: {fault}" for claim in claims for fault in claim.faults]
    for name, result in results.items():
        commands = listed(result["command"]) + [each for table in result["tables"] for each in listed(table.get("command", []))]
        faults += [f"{name}.json: {fault}" for fault in map(command_fault, set(commands) - {UNKNOWN}) if fault]
    lines = [HEAD]
    for name in dict.fromkeys(claim.page for claim in claims):
        up = Path("../..") if not name.startswith("docs/") else Path("..")
        link = up / name.removeprefix("docs/")
        lines += [f"## [{name}]({link})", "", "| claim | shown by | last measured | date |", "|---|---|---|---|"]
        lines += [claim.row() for claim in claims if claim.page == name] + [""]
    return re.sub(r" +\|", " |", "\n".join(lines)).replace("|  |", "| |"), faults
