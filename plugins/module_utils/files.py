# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Files on the host: read without fuss, written whole or not at all."""

from __future__ import annotations

import hashlib
import os

from .errors import InferopsError

TYPE_CHECKING = False  # importing typing for annotations alone would cost a plan that changes nothing a tenth of itself
if TYPE_CHECKING:
    from typing import Any


def read_bytes(path: str) -> bytes | None:
    """The file's content, or ``None`` where there is no such file."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_text(path: str) -> str | None:
    """The file's text (UTF-8, undecodable bytes kept as surrogates), or ``None`` where there is no such file."""
    raw = read_bytes(path)
    return None if raw is None else raw.decode("utf-8", "surrogateescape")


def readable(value: Any) -> Any:
    """A result with all of its texts fit to be shown: bytes that were kept as surrogates become escapes.

    Ansible takes no other result, and no report can be written with them.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {readable(key): readable(part) for key, part in value.items()}
    return [readable(part) for part in value] if isinstance(value, (list, tuple)) else value


def read_json(path: str, *keys: str) -> Any:
    """The file's JSON value, or ``None`` where there is no such file.

    :raises InferopsError: when the file is there and is not JSON, or is no object with these ``keys``.
    """
    text = read_text(path)
    if text is None:
        return None
    import json

    again = "it is written by this collection, so restore it from a backup or remove it and run deploy.yml again"
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InferopsError(f"{path} is not valid JSON ({error}); {again}") from error
    if keys and value is not None:
        lacking = [key for key in keys if not isinstance(value, dict) or key not in value]
        if lacking:
            raise InferopsError(f"{path} is not as it was written: it has no {', '.join(map(repr, lacking))}; {again}")
    return value


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def fsync_dir(path: str) -> None:
    """Make a rename or a new name in ``path`` survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: str, data: bytes, mode: int = 0o644, uid: int | None = None, gid: int | None = None) -> None:
    """Replace ``path`` by a new file with ``data``: a reader sees the old content or the new, never a part.

    The file gets its mode and owner before it has its name, so a secret is never readable in between. A hard link
    or symbolic link at ``path`` is replaced, never written through.
    """
    import tempfile  # 8 ms, which a run that writes nothing need not spend

    folder = os.path.dirname(path) or "."
    fd, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", dir=folder)
    try:
        with os.fdopen(fd, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            if uid is not None or gid is not None:
                os.fchown(stream.fileno(), -1 if uid is None else uid, -1 if gid is None else gid)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    fsync_dir(folder)
