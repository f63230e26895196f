# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Whether a gateway knows its servers: its list of workers, and the manifest that it reads, against who is to be there.

Observed on the gateway's host. What is missing is put right by ``gateway_worker``, server by server; the permissions of
its keys by ``drift.yml`` itself.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable, Sequence
from typing import Any

from ..changes import Plan
from ..files import read_json
from .settings import CONFIG, Settings, load
from .workers import ABSENT, PRESENT, RESOURCE, check_url, observe

#: Who may read a gateway's keys: root, and the gateway itself. As the role sglang_gateway writes them.
CLOSED = "root:sglang-gateway 0640"


def run(urls: Sequence[str], path: str = CONFIG) -> dict[str, Any]:
    """The differences between the gateway on this host and the servers that it is to have.

    :raises InferopsError: when there is no gateway here, or for a URL of another form.
    """
    settings = load(path)
    found = states(settings)
    changes = plan(found, [check_url(url) for url in urls])
    secrets = (read_json(path, "secrets") or {})["secrets"]
    found_as = permissions(secrets)
    # keys that are gone are made by the role alone
    (changes.notice if found_as is None else changes.add)(RESOURCE, f"permissions of {secrets}", found_as, CLOSED)
    return {
        "plan": changes.to_list(),
        "noticed": [change.to_dict() for change in changes.noticed],
        "in_sync": not changes.changed,
        "observed": {"workers": found},
    }


def states(settings: Settings) -> dict[str, str]:
    """The state of each worker, in words where the list and the manifest do not agree."""
    listed = observe(settings.workers)
    read = {worker["url"] for worker in (read_json(settings.manifest, "workers") or {"workers": []})["workers"]}
    found = {}
    for url in sorted(listed.keys() | read):
        state = listed.get(url, ABSENT)
        agree = (state == PRESENT) == (url in read)
        found[url] = state if agree else f"{state} in the list, {'named' if url in read else 'missing'} in the manifest"
    return found


def plan(found: dict[str, str], urls: Sequence[str]) -> Plan:
    """A server that is not there, or gets no requests, is to be put back; one that nobody describes is noticed only."""
    changes = Plan()
    for url in sorted(set(urls)):
        changes.add(RESOURCE, f"worker {url}", found.get(url, ABSENT), PRESENT)
    for url in sorted(found.keys() - set(urls)):
        changes.notice(RESOURCE, f"worker {url}", found[url], ABSENT)
    return changes


def permissions(path: str) -> str | None:
    """User, group and mode of a file, in words; ``None`` where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    names = [_name(pwd.getpwuid, status.st_uid), _name(grp.getgrgid, status.st_gid)]
    return f"{':'.join(names)} {stat.S_IMODE(status.st_mode):04o}"


def _name(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
