# Copyright: (c) 2026, the inferops.sglang authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The specification of a build, made on the controller from a lock, patches and the lock's Python version.

A host gets content, not names: the pins of the lock and the definitions of the patches travel as parameters. The name
of a build follows from that content, so it is known before any build exists.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.inferops.sglang.plugins.module_utils.build import installed
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError, nearest
from ansible_collections.inferops.sglang.plugins.plugin_utils import catalogue

COLLECTION = Path(__file__).resolve().parent.parent.parent
REQUIREMENTS = "requirements.txt"
DESCRIPTION = "lock.yml"
_KEYS = ("release", "cuda", "python", "waivers", "environment")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")


def shipped(collection_root: Path) -> list[str]:
    """The names of the locks that come with the collection."""
    return sorted(path.parent.name for path in (collection_root / "locks").glob(f"*/{DESCRIPTION}"))


def resolve(
    lock: str,
    patches: Sequence[str | Mapping[str, Any]],
    *,
    python: str,
    indexes: Sequence[str] = (),
    find_links: Sequence[str] = (),
    collection_root: Path,
    search: Sequence[str] = (),
) -> dict[str, Any]:
    """What a host needs to make the build, and its ``build_id``.

    ``lock`` is a shipped name, or a folder of the user's (a path, or a name that lies in one of the ``search``
    folders or in its ``locks/``). ``patches`` are names of the catalogue or definitions written out. ``python`` is the
    interpreter on the host; its version must be the lock's. ``indexes`` (package indexes, in order) and
    ``find_links`` (folders or pages of wheels) say where packages come from and are no part of the identity.

    :raises InferopsError: for a lock or patch that does not exist or is not valid.
    """
    described = load(find(lock, collection_root, search))
    definitions = catalogue.load(list(patches), collection_root)
    identity = {
        "lock": described.pop("files"),
        "patches": definitions,
        "python": ".".join(described["python"].split(".")[:2]),
    }
    digest = hashlib.sha256(canonical(identity)).hexdigest()
    return {
        "build_id": f"{described['name']}-{digest[:12]}",
        "lock": described,
        "patches": definitions,
        "python": python,
        "indexes": list(indexes),
        "find_links": list(find_links),
    }


def find(lock: str, collection_root: Path, search: Sequence[str] = ()) -> Path:
    """The folder of a lock.

    :raises InferopsError: when there is none.
    """
    bases = [Path(base) for base in search]
    candidates = [path for base in bases for path in (base / lock, base / "locks" / lock)]
    if "/" in lock:
        candidates.append(Path(lock).expanduser())
    else:
        candidates.append(collection_root / "locks" / lock)
    for folder in candidates:
        if (folder / DESCRIPTION).is_file():
            return folder
    known = shipped(collection_root)
    looked_in = ", ".join(dict.fromkeys(str(folder) for folder in candidates))
    raise InferopsError(
        f"lock {lock!r} is neither a shipped lock ({', '.join(known) or 'there are none'}) nor a folder with "
        f"{DESCRIPTION} and {REQUIREMENTS} (looked in {looked_in})" + nearest(lock, known)
    )


def load(folder: Path) -> dict[str, Any]:
    """The lock in ``folder``: its description, the text of its pins, and ``files``, the text of both files.

    :raises InferopsError: when a file is missing or says something that no lock may say.
    """
    name = folder.resolve().name
    if not _NAME.match(name):
        raise InferopsError(
            f"the lock folder {folder} cannot name a build: use letters, digits, dot, dash, underscore and plus only"
        )
    files = {}
    for part in (DESCRIPTION, REQUIREMENTS):
        try:
            files[part] = (folder / part).read_text(encoding="utf-8")
        except OSError as error:
            raise InferopsError(f"lock {name!r} is not complete: {folder / part}: {error.strerror}") from error
    _refuse_no_pins(files[REQUIREMENTS], folder / REQUIREMENTS)
    description = _description(files[DESCRIPTION], folder / DESCRIPTION)
    return {
        "name": name,
        "sha256": hashlib.sha256(canonical(files)).hexdigest(),
        "requirements": files[REQUIREMENTS],
        "files": files,
        **description,
    }


def _texts(values: Iterable[Any]) -> bool:
    """Whether all are texts that say something."""
    return all(isinstance(value, str) and value.strip() for value in values)


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: what digests are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _refuse_no_pins(text: str, path: Path) -> None:
    """:raises InferopsError: when a line would leave open what is installed, or from where."""
    for line in installed.no_pins(text):
        shown = re.sub(r"//[^/@\s]*@", "//…@", line)
        if line.startswith("-"):
            why = (
                "only this file travels to a host, and where packages come from is configuration (sglang_indexes, "
                "sglang_find_links): remove the option, and write out what a file that it names holds"
            )
        else:
            why = "a lock names each version (name==1.2.3): resolve it first, with `make lock` or `uv pip compile`"
        raise InferopsError(f"{path} is no lock: {shown!r}: {why}")


def _description(text: str, path: Path) -> dict[str, Any]:
    """The validated content of ``lock.yml``.

    :raises InferopsError: for invalid YAML, an unknown key, a missing key or a value of another kind.
    """
    try:
        value = catalogue.plain_yaml(text)
    except yaml.YAMLError as error:
        raise InferopsError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(value, dict):
        raise InferopsError(f"{path} must be a mapping with the keys {', '.join(_KEYS)}")
    for key in value:
        if key not in _KEYS:
            raise InferopsError(f"{path}: unknown key {key!r}; known are {', '.join(_KEYS)}{nearest(str(key), _KEYS)}")
    for key in ("release", "python"):
        if not isinstance(value.get(key), str):
            raise InferopsError(f"{path}: {key} must be a quoted version ('0.5.23'), not {value.get(key)!r}")
    cuda = value.get("cuda")
    if cuda is not None and not (isinstance(cuda, str) and re.fullmatch(r"\d+\.\d+", cuda)):
        raise InferopsError(f"{path}: cuda must be null (a CPU lock) or a quoted version ('13.0'), not {cuda!r}")
    waivers = value.get("waivers") or []
    for waiver in waivers:
        if not isinstance(waiver, dict) or set(waiver) != {"check", "reason"} or not _texts(waiver.values()):
            raise InferopsError(f"{path}: each waiver has 'check' and 'reason', both filled; found {waiver!r}")
    environment = value.get("environment") or {}
    if not isinstance(environment, dict) or not all(isinstance(item, str) for item in environment.values()):
        raise InferopsError(f"{path}: environment must map names to quoted texts; found {environment!r}")
    return {
        "release": value["release"],
        "cuda": cuda,
        "python": value["python"],
        "waivers": waivers,
        "environment": environment,
    }
