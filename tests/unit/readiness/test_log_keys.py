"""Lines of a log that are returned or shown have no API key in them, however SGLang prints it."""

from __future__ import annotations

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.readiness.lines import Splitter

KEY = "sk-planted'\\\"1"


@pytest.mark.parametrize(
    "line",
    [
        f"server_args=ServerArgs(model_path='/m', api_key={KEY!r}, admin_api_key={'ak' + KEY!r}, port=30000)",
        "server_args={'api_key': 'sk-planted-1', 'admin_api_key': 'ak-planted', 'port': 30000}",
        '{"model_path": "/m", "api_key": "sk-planted-1", "admin_api_key": "ak-planted", "port": 30000}',
        "launch_command: python -m sglang.launch_server --api-key sk-planted --admin-api-key=ak-planted --port 30000",
        "argv: ['--api-key', 'sk-planted', '--admin-api-key=ak-planted', '--port', '30000']",
    ],
)
def test_a_line_loses_its_keys_and_nothing_else(line: str) -> None:
    (piece,) = Splitter().feed(f"[2026-11-20 10:00:43] {line}\n".encode())
    assert "planted" not in piece.text and "planted" not in piece.message
    assert "30000" in piece.message and "***" in piece.message


def test_a_key_that_is_not_set_is_shown_as_that() -> None:
    (piece,) = Splitter().feed(b"server_args=ServerArgs(api_key=None, admin_api_key=None)\n")
    assert piece.message == "server_args=ServerArgs(api_key=None, admin_api_key=None)"
