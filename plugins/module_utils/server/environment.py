# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""The Python environment that an instance runs from: a sealed build, or one in place that its owner keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import layout
from ..build import snapshot, store
from ..files import read_bytes, read_json, sha256, write_atomic
from .spec import IN_PLACE


@dataclass(frozen=True)
class Environment:
    """Where a server's Python is and what is known of it.

    ``root`` is the build's folder (or the folder above an environment's ``bin``); ``schema`` are the options of its
    release (``options.dump``); ``seal`` is the digest of the build's manifest, ``""`` in place; ``variables`` are what
    the lock wants in the unit's environment.
    """

    python: str
    root: str
    release: str
    cuda: str | None
    schema: dict[str, Any]
    build_id: str | None = None
    seal: str = ""
    variables: dict[str, str] = field(default_factory=dict)


def find(instance: Mapping[str, Any], schema: dict[str, Any] | None = None) -> Environment | None:
    """The environment that the instance wants, or ``None`` where it is not there yet.

    It is read from the host's files alone. In place, the options are those that ``keep_schema`` has put there, or
    ``schema``.

    :raises InferopsError: for a manifest or schema that cannot be read.
    """
    if instance["mode"] == IN_PLACE:
        return _in_place(instance, schema or kept_schema(instance))
    return _sealed(instance["build"])


def _sealed(wanted: Mapping[str, Any]) -> Environment | None:
    numbered = [(n, path) for path, build_id, n in store.folders(layout.BUILDS) if build_id == wanted["build_id"]]
    for dummy, path in sorted(numbered, reverse=True):
        manifest = store.sealed(path)
        schema = read_json(os.path.join(path, snapshot.OPTIONS)) if manifest is not None else None
        if manifest is None or schema is None:
            continue
        return Environment(
            python=os.path.join(path, "bin", "python"),
            root=path,
            release=manifest["lock"]["release"],
            cuda=manifest["lock"]["cuda"],
            schema=schema,
            build_id=wanted["build_id"],
            seal=sha256(read_bytes(os.path.join(path, snapshot.MANIFEST)) or b""),
            variables=dict(wanted.get("environment") or {}),
        )
    return None


def schema_file(name: str) -> str:
    """Where the option schema of an instance's environment in place is kept."""
    return os.path.join(layout.Instance(name).root, "options.json")


def schema_key(instance: Mapping[str, Any]) -> dict[str, Any]:
    """What the schema of an environment in place depends on: the interpreter and the file that declares the options."""
    python = instance["python"]
    key: dict[str, Any] = {"python": python}
    for path in (python, *_declarations(instance)):
        try:
            status = os.stat(path)
        except OSError:
            key[path] = None
        else:
            key[path] = [status.st_size, status.st_mtime_ns]
    return key


def _declarations(instance: Mapping[str, Any]) -> list[str]:
    if instance.get("source"):
        source = instance["source"]
        # a checkout of the repository has the package in python/
        bases = [os.path.join(source, "python"), source]
    else:
        bases = []
        library = os.path.join(os.path.dirname(os.path.dirname(instance["python"])), "lib")
        if os.path.isdir(library):
            bases = [os.path.join(library, name, "site-packages") for name in sorted(os.listdir(library))]
    return [os.path.join(base, "sglang", "srt", "server_args.py") for base in bases]


def kept_schema(instance: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema of an environment in place, unless what it was read from has changed since."""
    kept = read_json(schema_file(instance["name"]))
    return kept["schema"] if kept is not None and kept["key"] == schema_key(instance) else None


def keep_schema(instance: Mapping[str, Any], schema: dict[str, Any]) -> None:
    """Keep the schema of an environment in place, so that a plan need not start its interpreter."""
    path = schema_file(instance["name"])
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_atomic(path, json.dumps({"key": schema_key(instance), "schema": schema}).encode())


def _in_place(instance: Mapping[str, Any], schema: dict[str, Any] | None) -> Environment | None:
    if schema is None:
        return None
    python = instance["python"]
    root = os.path.dirname(os.path.dirname(python))
    return Environment(python=python, root=root, release=schema["release"], cuda=None, schema=schema)
