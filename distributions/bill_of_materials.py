"""Bill of materials: the crates that are linked into the native twin, as a CycloneDX document.

Source: CycloneDX 1.6. A crate that only builds (a build script, a procedural macro) is not in the file that users get.
"""

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from distributions.refusal import Refusal

_LICENCES = ("LICEN[CS]E*", "COPYING*", "NOTICE*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crate:
    """One linked crate. `licences` are its files by name; `needs` are the names of the crates that it links."""

    name: str
    version: str
    licence: str
    sha256: str | None
    needs: tuple[str, ...]
    licences: dict[str, bytes]


def crates(native: Path) -> list[Crate]:
    """Return the crates that the twin links, the twin itself first."""
    asked = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", _platform()]
    said = subprocess.run(asked, cwd=native, capture_output=True, text=True, check=False)
    if said.returncode:
        raise Refusal(f"cargo cannot list the crates: {said.stderr.strip()}")
    found = json.loads(said.stdout)
    packages = {each["id"]: each for each in found["packages"]}
    nodes = {each["id"]: each for each in found["resolve"]["nodes"]}
    locked = tomllib.loads((native / "Cargo.lock").read_text())["package"]
    sums = {(each["name"], each["version"]): each.get("checksum") for each in locked}
    linked: dict[str, list[str]] = {}
    waiting = [found["resolve"]["root"]]
    while waiting:
        this = waiting.pop()
        if this not in linked:
            linked[this] = [each["pkg"] for each in nodes[this]["deps"] if _is_linked(each, packages[each["pkg"]])]
            waiting += linked[this]
    return [_crate(packages[each], [packages[need] for need in needs], sums) for each, needs in linked.items()]


def cyclonedx(crates: list[Crate]) -> bytes:
    """Return the document. Equal crates give equal bytes: it names no time, and its serial number is a digest."""
    twin, *linked = crates
    listed = sorted(linked, key=lambda crate: crate.name)
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, ' '.join(map(_purl, [twin, *listed])))}",
        "version": 1,
        "metadata": {"component": _component(twin)},
        "components": [_component(each) for each in listed],
        "dependencies": [{"ref": _purl(each), "dependsOn": sorted(_purl(found) for found in crates
                          if found.name in each.needs)} for each in [twin, *listed]],
    }  # fmt: skip
    return json.dumps(content, indent=1).encode() + b"\n"


def _platform() -> str:
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=False).stdout
    return next(line.partition(": ")[2] for line in said.splitlines() if line.startswith("host: "))


def _is_linked(dependency: dict[str, Any], package: dict[str, Any]) -> bool:
    is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
    return not is_macro and any(each["kind"] is None for each in dependency["dep_kinds"])


def _crate(package: dict[str, Any], needs: list[dict[str, Any]], sums: dict[tuple[str, str], str | None]) -> Crate:
    folder, key = Path(package["manifest_path"]).parent, (package["name"], package["version"])
    files = [path for pattern in _LICENCES for path in sorted(folder.glob(pattern)) if path.is_file()]
    return Crate(
        name=package["name"],
        version=package["version"],
        licence=package["license"],
        sha256=sums[key],
        needs=tuple(each["name"] for each in needs),
        licences={path.name: path.read_bytes() for path in files},
    )


def _component(crate: Crate) -> dict[str, Any]:
    sums = [{"alg": "SHA-256", "content": crate.sha256}] if crate.sha256 else []
    return {
        "type": "library",
        "bom-ref": _purl(crate),
        "name": crate.name,
        "version": crate.version,
        **({"hashes": sums} if sums else {}),
        "licenses": [{"expression": crate.licence}],
        "purl": _purl(crate),
    }


def _purl(crate: Crate) -> str:
    return f"pkg:cargo/{crate.name}@{crate.version}"
