"""Finding the server to compare, and what the comparison says."""

from __future__ import annotations

import pytest
from sandbox import __main__ as command_line
from sandbox import compare, records
from sandbox.shell import SandboxError

SERVER = ["/b/bin/python", "-m", "sglang.launch_server", "--model-path=/srv/models/x", "--port=30001"]


def test_the_server_is_found_by_its_port_in_either_form_of_an_option() -> None:
    spaced = ["/c/bin/python", "-m", "sglang.launch_server", "--port", "30002", "--model-path", "/y"]
    processes = [[], ["sleep", "1"], SERVER, spaced]
    assert compare.find_server(processes, 30001) == ("/b/bin/python", "/srv/models/x")
    assert compare.find_server(processes, 30002) == ("/c/bin/python", "/y")


def test_a_server_without_a_port_option_has_the_default_port() -> None:
    assert compare.find_server([SERVER[:-1]], 30000) == ("/b/bin/python", "/srv/models/x")


def test_no_server_on_the_port_is_said() -> None:
    with pytest.raises(SandboxError, match="port 30009"):
        compare.find_server([SERVER, ["grep", "launch_server"]], 30009)


@pytest.mark.parametrize(("got", "code", "word"), [([1, 2], 0, "same"), ([1, 3], 1, "DIFFERENT")])
def test_other_tokens_fail_the_command(
    got: list[int],
    code: int,
    word: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"prompt": "x", "wanted": [1, 2], "got": got, "accept_length": 2.5}]
    monkeypatch.setattr(compare, "compare", lambda name, port: rows)
    monkeypatch.setattr(records, "require", lambda name: None)
    assert command_line.main(["compare", "a"]) == code
    said = capsys.readouterr().out
    assert word in said and "2.5" in said
