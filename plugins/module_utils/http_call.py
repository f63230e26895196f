# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""One HTTP request without proxies, redirects or surprises: what comes back, or why nothing did."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """``status`` is 0 when there was no answer; ``error`` then says why, and ``refused`` that nobody listens there.

    Header names are in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    error: str = ""
    refused: bool = False

    @property
    def ok(self) -> bool:
        return self.status == 200

    def json(self) -> Any:
        """The body as JSON, or ``None`` where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def connect(url: str, timeout: float) -> tuple[http.client.HTTPConnection, str]:
    """A connection to the server of ``url`` and the path that it names; nothing is sent yet."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = parts.path or "/"
    return kind(parts.hostname or "", parts.port, timeout=timeout), path + (f"?{parts.query}" if parts.query else "")


def headers(key: str | None, body: Any = None) -> dict[str, str]:
    found = {"Authorization": f"Bearer {key}"} if key else {}
    return {**found, "Content-Type": "application/json"} if body is not None else found


def request(method: str, url: str, body: Any = None, key: str | None = None, timeout: float = 10.0) -> Answer:
    """Send one request and read the whole answer; ``timeout`` bounds each wait, not the sum."""
    connection, path = connect(url, timeout)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), headers(key, body))
        answer = connection.getresponse()
        data = answer.read()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, data)
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, {}, b"", str(error) or type(error).__name__, isinstance(error, ConnectionRefusedError))
    finally:
        connection.close()
