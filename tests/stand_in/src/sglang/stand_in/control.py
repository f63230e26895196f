"""What the stand-in is told to do: from the environment and from control files, looked at again when they change.

Later sources win: ``STAND_IN_<KEY>`` variables; ``/etc/stand_in.json`` (or the file that ``STAND_IN_CONTROL`` names);
``/etc/stand_in-<port>.json``. In a file the keys of ``releases[<release>]`` win over the others of the same file, so
that a fault can belong to the new release alone. The keys and what they mean are in the README.
"""

from __future__ import annotations

import json
import os

from sglang.version import __version__

_FILE = "/etc/stand_in.json"
_cache: dict[str, tuple[tuple[int, int], dict]] = {}


def release_name() -> str:
    """The release that is played, without a local part."""
    return os.environ.get("STAND_IN_RELEASE", __version__).partition("+")[0]


def release() -> tuple[int, ...]:
    return tuple(int(part) for part in release_name().split(".")[:3])


def load(port: int | None = None) -> dict:
    """All keys that are set now."""
    keys: dict = {}
    for name, value in os.environ.items():
        if name.startswith("STAND_IN_") and name not in ("STAND_IN_RELEASE", "STAND_IN_CONTROL"):
            keys[name[9:].lower()] = _value(value)
    path = os.environ.get("STAND_IN_CONTROL", _FILE)
    keys.update(_read(path))
    if port is not None:
        head, tail = os.path.splitext(path)
        keys.update(_read(f"{head}-{port}{tail}"))
    return keys


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _read(path: str) -> dict:
    try:
        stat = os.stat(path)
    except OSError:
        return {}
    stamp = (stat.st_mtime_ns, stat.st_ino)
    if _cache.get(path, (None, {}))[0] != stamp:
        with open(path, encoding="utf-8") as stream:
            keys = json.load(stream)
        keys.update(keys.pop("releases", {}).get(release_name(), {}))
        _cache[path] = (stamp, keys)
    return _cache[path][1]
