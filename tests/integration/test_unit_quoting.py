"""Any string arrives in a process as it was given: proved by units that systemd really starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import unit_host
from ansible_collections.inferops.sglang.plugins.module_utils.server import quoting
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.sandbox

UNIT = "inferops-quoting.service"
_ON_HOST = r"""
import os, subprocess
UNIT = "inferops-quoting.service"
def start(unit, environment):
    open("/run/systemd/system/" + UNIT, "wb").write(unit.encode("utf-8"))
    open("/run/inferops-quoting.env", "wb").write(environment.encode("utf-8"))
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "start", UNIT], check=True)
    shown = subprocess.run(["systemctl", "show", "-P", "MainPID", UNIT], check=True, capture_output=True, text=True)
    pid = shown.stdout.strip()
    cmdline = open(f"/proc/{pid}/cmdline", "rb").read().decode().split("\0")[:-1]
    environ = open(f"/proc/{pid}/environ", "rb").read().decode().split("\0")[:-1]
    subprocess.run(["systemctl", "kill", "-s", "KILL", UNIT], check=True)
    subprocess.run(["systemctl", "stop", UNIT], check=True)
    return cmdline, environ
def clean():
    subprocess.run(["systemctl", "reset-failed", UNIT], capture_output=True)
    for path in ("/run/systemd/system/" + UNIT, "/run/inferops-quoting.env"):
        if os.path.exists(path):
            os.unlink(path)
    subprocess.run(["systemctl", "daemon-reload"], check=True)
"""
_BASE = ["/usr/bin/python3", "-c", "import time; time.sleep(60)"]

# everything but NUL, which no argument can carry, and lone surrogates, which no UTF-8 file can
text = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=40)
nasty = st.sampled_from(
    ["%n", "%%", "$HOME", "${HOME}", "$$", "\\", "\\n", '"', "'", "a\nb", "\t", ";", "\\;", "#", "-x", "", " ", "=",
     '{"a": "b c", "d": [1, "%h"]}', "äöü€😀", "`id`", "\\x41", "a\\\nb", "\r", "\x7f", "\x01", "!", "@", "|", "~", ":"]
)  # fmt: skip
word = st.one_of(nasty, text, st.lists(nasty, min_size=2, max_size=3).map("".join))


@pytest.fixture(scope="module")
def line() -> Iterator[unit_host.Line]:
    connection = unit_host.Line(unit_host.up(unit_host.HOST), _ON_HOST)
    yield connection
    connection.call("clean")
    connection.close()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(arguments=st.lists(word, min_size=1, max_size=30), values=st.lists(word, max_size=15))
def test_arguments_and_environment_arrive_unchanged(
    line: unit_host.Line, arguments: list[str], values: list[str]
) -> None:
    variables = {f"V{index}": value for index, value in enumerate(values)}
    argv = [*_BASE, *arguments]
    unit = f"[Service]\nType=exec\nEnvironmentFile=/run/inferops-quoting.env\nExecStart={quoting.command(argv)}\n"
    cmdline, environ = line.call("start", unit, quoting.environment(variables))
    assert cmdline == argv
    found = dict(entry.partition("=")[::2] for entry in environ)
    assert {name: found.get(name) for name in variables} == variables
