"""`apportion doctor`: checks that this installation gives the same answers as every other, or that a store is well."""

import importlib.util
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version

from apportion import __version__, native
from apportion.console.doctor.store import doctor_store
from apportion.console.options.arguments import Json
from apportion.console.print.output import print_columns, print_json, print_text
from apportion.errors import ApportionError
from apportion.placement import Ring, catalog, hashers

# Hashes of b"apportion" and one route, from the first release: fixed for ever.
KNOWN_HASHES = {
    "crc16": 0xFF77,
    "md5": 0xE52CB0915A5876E1,
    "murmur3": 0x817396406555FE3A,
    "sha-256": 0x592560C7B5E4003F,
    "siphash-2-4": 0xAD991A2571D9CF80,
    "xxh3-64": 0xDE9FC059243C8462,
    "xxh64": 0xA2D8007352E425F6,
}
KNOWN_ROUTE = ("tenant-42", "c")
DEPENDENCIES = ("xxhash", "mmh3", "siphash24", "cyclopts", "rich")
PEERS = ("uhashring",)


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `advice` is empty if all is well."""

    name: str
    found: str
    advice: str = ""


def doctor(*, store: str | None = None, json: Json = False) -> int:
    """Check hash functions, the ring, plug-ins and versions. Exit code 1 if a check needs attention.

    The output names the implementation in use, native twin or reference, and the reason. With a store, check the store.

    Parameters
    ----------
    store
        URL of a store to check instead: reach, setup, promises and speed. Then only an error gives exit code 1.
    """
    if store is not None:
        return doctor_store(store, json=json)
    checks = [
        _platform(),
        _implementation(),
        *map(_dependency, DEPENDENCIES),
        *map(_peer, PEERS),
        *map(_hash, KNOWN_HASHES),
        _ring(),
        _catalog(),
    ]
    ill = [check for check in checks if check.advice]
    if json:
        twin = {"in_use": native.IN_USE, "profile": native.extension.PROFILE if native.IN_USE else None}
        print_json("doctor", healthy=not ill, native=twin, checks=[asdict(check) for check in checks])
    else:
        print_columns(("check", "found"), [(check.name, check.found) for check in checks])
        print()
        for check in ill:
            print_text(f"{check.name}: {check.advice}")
        print_text(
            "doctor: "
            + (f"{len(ill)} of {len(checks)} checks need attention" if ill else f"all {len(checks)} checks are well")
        )
    return 1 if ill else 0


def _platform() -> Check:
    found = f"{__version__}, Python {platform.python_version()}, {platform.system()}"
    return Check("apportion", found)


def _implementation() -> Check:
    found = f"{'native' if native.IN_USE else 'reference'} ({native.DETAIL})"
    ill = native.STATE in {native.TwinState.UNLOADABLE, native.TwinState.OTHER_VERSION}
    return Check("implementation", found, "the native twin is not used; install apportion again" if ill else "")


def _dependency(name: str) -> Check:
    if importlib.util.find_spec(name) is None:
        return Check(name, "absent", f"install it: pip install {name}")
    return Check(name, version(name))


def _peer(name: str) -> Check:
    found = version(name) if importlib.util.find_spec(name) else "absent (only `apportion tour` compares with it)"
    return Check(name, found)


def _hash(name: str) -> Check:
    key = bytes(range(hashers.SECRET_BYTES)) if name == "siphash-2-4" else None
    found, known = hashers.get(name, key=key)(b"apportion"), KNOWN_HASHES[name]
    return Check(
        f"hash {name}", f"{found:016x}", "" if found == known else f"expected {known:016x}; do not route with it"
    )


def _ring() -> Check:
    key, known = KNOWN_ROUTE
    found = Ring(["a", "b", "c"]).route(key)
    return Check(
        "ring of a, b, c", f"{key} -> {found}", "" if found == known else f"expected {known}; do not route with it"
    )


def _catalog() -> Check:
    try:
        return Check("placements", ", ".join(catalog.names()))
    except ApportionError as error:
        return Check("placements", "a plug-in is broken", str(error))
