"""The crates that are in a program: their licenses with the texts, and a bill of materials (CycloneDX)."""

import json
import re
import subprocess
import tomllib
import uuid
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

LICENSE_FILE = re.compile(r"(un)?licen[cs]e|copying|copyright|notice", re.IGNORECASE)
NOT_A_TEXT = {".rs", ".html", ".py", ".json", ".toml"}
# C code in the packages of crates: its name, its license, and the file of that.
BUNDLED = {"zstd-sys": ("zstd", "BSD-3-Clause", "zstd/LICENSE")}
# Names of this project in identifiers of documents. Its value says nothing; it must only stay the same.
NAMESPACE = uuid.UUID("8a9d5b5c-0a3e-4c1b-9d6a-5a6b1f3c2e70")


class Crates:
    """The crates that are compiled into a crate of the workspace, by cargo's own resolution."""

    def __init__(self, root, package, target):
        self.root, self.package, self.target = root, package, target

    def cargo(self, *arguments):
        command = ["cargo", *arguments, "--locked", "--manifest-path", str(self.root / "Cargo.toml")]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout

    @cached_property
    def linked(self):
        """(name, version) of each crate whose code is in the program: neither build scripts nor macros."""
        tree = self.cargo(
            "tree", "--package", self.package, "--target", self.target, "--edges", "normal,no-proc-macro",
            "--prefix", "none", "--format", "{p}",
        )  # fmt: skip
        words = (line.split() for line in tree.splitlines() if line)
        return {(name, version.removeprefix("v")) for name, version, *_ in words}

    @cached_property
    def packages(self):
        """What cargo knows of each of them, by identifier."""
        known = self.metadata["packages"]
        return {it["id"]: it for it in known if (it["name"], it["version"]) in self.linked}

    @cached_property
    def metadata(self):
        return json.loads(self.cargo("metadata", "--format-version", "1", "--filter-platform", self.target))

    @cached_property
    def checksums(self):
        lock = tomllib.loads((self.root / "Cargo.lock").read_text())
        return {(it["name"], it["version"]): it.get("checksum") for it in lock["package"]}

    def foreign(self):
        """Those of others, in the order of their names."""
        others = (it for it in self.packages.values() if it["source"])
        return sorted(others, key=lambda it: (it["name"], it["version"]))

    def notices(self, also=""):
        """The licenses of others, as they ask to be in every copy: first which crate has which, then each text once."""
        texts, lines = {}, []
        for crate in self.foreign():
            numbers = []
            for text in license_texts(crate):
                key = " ".join(text.split())
                numbers.append(texts.setdefault(key, (len(texts) + 1, text))[0])
            named = ", ".join(f"[{number}]" for number in numbers) or "no text in its package"
            authors = "" if numbers or not crate["authors"] else f", by {', '.join(crate['authors'])}"
            bundled = f", with {BUNDLED[crate['name']][0]}" if crate["name"] in BUNDLED else ""
            lines.append(f"{crate['name']} {crate['version']}{bundled}{authors}: {expression(crate)}: {named}")
        head = "sakiyomi contains code of these crates. Their licenses, and the texts that come with them:\n\n"
        body = "".join(f"\n{'=' * 78}\n[{number}]\n\n{text.strip()}\n" for number, text in texts.values())
        return head + "\n".join(lines) + "\n" + also + body

    def bundled(self):
        """Components for the C code in packages of crates."""
        for crate in self.foreign():
            if crate["name"] in BUNDLED:
                name, license, _ = BUNDLED[crate["name"]]
                version = crate["version"].rsplit(f"+{name}.", 1)[1]
                yield other_component(name, version, license, f"pkg:generic/{name}@{version}")

    def bill_of_materials(self, epoch, others=()):
        """CycloneDX 1.6 in JSON. `others` are components that no crate brings."""
        others = [*self.bundled(), *others]
        references = {key: reference(it) for key, it in self.packages.items()}
        nodes = {node["id"]: node for node in self.metadata["resolve"]["nodes"]}
        root = next(key for key, it in self.packages.items() if it["name"] == self.package)
        depends = []
        for key in references:
            normal = {dep["pkg"] for dep in nodes[key]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])}
            on = sorted(references[dep] for dep in normal if dep in references)
            if key == root:
                on += [other["bom-ref"] for other in others]
            depends.append({"ref": references[key], "dependsOn": on})
        components = [self.component(it) for key, it in self.packages.items() if key != root]
        bill = {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "component": self.component(self.packages[root], "application"),
            },
            "components": sorted([*components, *others], key=lambda it: it["bom-ref"]),
            "dependencies": sorted(depends, key=lambda it: it["ref"]),
        }
        text = json.dumps(bill, indent=2, sort_keys=True)
        bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, text)}"
        return json.dumps(bill, indent=2, sort_keys=True) + "\n"

    def component(self, crate, kind="library"):
        made = {
            "type": kind,
            "bom-ref": reference(crate),
            "name": crate["name"],
            "version": crate["version"],
            "licenses": [{"expression": expression(crate)}],
        }
        if crate["description"]:
            made["description"] = " ".join(crate["description"].split())
        if crate["source"]:
            made["purl"] = reference(crate)
            made["hashes"] = [{"alg": "SHA-256", "content": self.checksums[crate["name"], crate["version"]]}]
        return made


def other_component(name, version, license, url):
    licenses = [{"expression": license}]
    return {"type": "library", "bom-ref": url, "purl": url, "name": name, "version": version, "licenses": licenses}


def reference(crate):
    # A version's `+` must be escaped in a package URL.
    return f"pkg:cargo/{crate['name']}@{crate['version'].replace('+', '%2B')}"


def expression(crate):
    """The SPDX expression of its license; some crates still write a slash for OR."""
    return crate["license"].replace("/", " OR ")


def license_texts(crate):
    directory = Path(crate["manifest_path"]).parent
    for path in sorted(directory.iterdir()):
        if path.is_file() and LICENSE_FILE.match(path.name) and path.suffix not in NOT_A_TEXT:
            yield path.read_text(errors="replace")
    if crate["name"] in BUNDLED:
        yield (directory / BUNDLED[crate["name"]][2]).read_text()
