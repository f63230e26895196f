# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""uv, the program that fills environments: put it on a host, and call it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from urllib.parse import unquote, urlsplit

from .. import layout
from ..errors import InferopsError
from ..files import write_atomic
from ..running import Completed, Runner, check

_WHEEL = re.compile(r"uv-(\d+(?:\.\d+)*)-py3-none-(.+)\.whl\Z")
#: No run may take longer because a mirror does not answer.
_TIMEOUT_S = "120"


def ensure(
    runner: Runner,
    *,
    python: str,
    indexes: Sequence[str] = (),
    find_links: Sequence[str] = (),
    tools: str = layout.TOOLS,
) -> str:
    """The path of a uv that runs; it is installed into ``tools`` where it is not there.

    A wheel of uv is an archive with the program inside. It is taken from a folder of ``find_links`` or, where none has
    one, fetched by pip (a temporary environment of ``python``) from the indexes, unless wheels are all there is.

    :raises InferopsError: when there is no wheel of uv for this machine.
    """
    target = os.path.join(tools, "uv")
    if runner([target, "--version"]).rc == 0:
        return target
    wheel = newest_wheel(find_links)
    if wheel is not None:
        _unpack(wheel, target)
        return target
    os.makedirs(tools, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix=".uv-", dir=tools)
    try:
        pip = [os.path.join(scratch, "pip", "bin", "python"), "-m", "pip", "--disable-pip-version-check"]
        check(runner, [python, "-m", "venv", os.path.join(scratch, "pip")], "making an environment for pip")
        check(
            runner,
            [*pip, "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", scratch, "uv"],
            f"fetching uv for {target}",
            env=_pip_environment(indexes, find_links),
        )
        wheel = newest_wheel([scratch])
        if wheel is None:
            raise InferopsError(
                f"pip fetched no wheel of uv for {platform.machine()}; put one into a folder of find_links"
            )
        _unpack(wheel, target)
    finally:
        shutil.rmtree(scratch)
    return target


def newest_wheel(folders: Sequence[str]) -> str | None:
    """The newest wheel of uv for this machine in the local folders among ``folders``."""
    found = []
    local = [folder for folder in map(local_folder, folders) if folder and os.path.isdir(folder)]
    for folder in local:
        for name in os.listdir(folder):
            match = _WHEEL.match(name)
            if match and match.group(2).endswith(platform.machine()):
                version = tuple(int(part) for part in match.group(1).split("."))
                # glibc before musl: distributions that SGLang runs on have glibc
                found.append((version, "musl" not in name, os.path.join(folder, name)))
    return max(found)[2] if found else None


def local_folder(link: str) -> str | None:
    """The folder that an entry of ``find_links`` means, or ``None`` for a page on a server."""
    if link.startswith("file://"):
        return unquote(urlsplit(link).path)
    return None if "://" in link else link


def environment(cache: str, indexes: Sequence[str], find_links: Sequence[str]) -> dict[str, str]:
    """The environment in which uv runs. Indexes go here and not to the command line: they may hold credentials."""
    values = {
        "UV_CACHE_DIR": cache,
        "UV_LINK_MODE": "hardlink",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "UV_HTTP_TIMEOUT": _TIMEOUT_S,
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    if indexes:
        values["UV_INDEX"] = " ".join(indexes)
        # every pin is exact, so the first index that knows a name must not hide the one that has the version
        values["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if find_links:
        values["UV_FIND_LINKS"] = ",".join(find_links)
    if find_links and not indexes:
        values["UV_OFFLINE"] = "1" if all(local_folder(link) for link in find_links) else ""
        values["UV_NO_INDEX"] = "1"
    return {key: value for key, value in values.items() if value}


def secrets(indexes: Sequence[str], find_links: Sequence[str]) -> set[str]:
    """The passwords in the addresses, as written and decoded: what no message may show."""
    passwords = {urlsplit(link).password for link in (*indexes, *find_links) if "://" in link}
    return {text for password in passwords if password for text in (password, unquote(password))}


def said(done: Completed, hidden: Iterable[str] = ()) -> str:
    """What uv printed on its way to a failure, in one paragraph, without the ``hidden`` texts and its drawings."""
    text = done.stderr.strip() or done.stdout.strip() or "nothing was printed"
    for secret in hidden:
        text = text.replace(secret, "********")
    lines = [re.sub(r"^[^\x00-\x7f\s]*\s*[^\x00-\x7f]*", "", line.strip()).strip() for line in text.splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("Using Python"))


def _unpack(wheel: str, target: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.endswith(".data/scripts/uv")]
        if len(members) != 1:
            raise InferopsError(f"{wheel} is no wheel of uv: it holds no scripts/uv; fetch it again")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        write_atomic(target, archive.read(members[0]), 0o755)


def _pip_environment(indexes: Sequence[str], find_links: Sequence[str]) -> dict[str, str]:
    values = {"PIP_EXTRA_INDEX_URL": " ".join(indexes), "PIP_FIND_LINKS": " ".join(find_links)}
    if find_links and not indexes:
        values["PIP_NO_INDEX"] = "1"
    return {key: value for key, value in values.items() if value}
