"""The callback ``progress``: its rows, and real runs of Ansible on a terminal and into a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.plugin_utils import live_view

ROOT = Path(__file__).resolve().parents[3]
ANSIBLE = str(Path(sys.executable).with_name("ansible-playbook"))
INVENTORY = "".join(f"{name} ansible_connection=local ansible_python_interpreter={sys.executable}\n" for name in "abc")

PLAY = """
- name: Three hosts
  hosts: all
  gather_facts: false
  tasks:
    - name: Changes b
      ansible.builtin.debug: {msg: quick}
      changed_when: inventory_hostname == 'b'
    - name: Waits
      say: {text: "tiny ▸ weights 3 of 8"}
    - name: Breaks c
      ansible.builtin.fail: {msg: "port 30000 is taken by pid 7"}
      when: inventory_hostname == 'c'
    - name: Is ignored
      ansible.builtin.fail: {msg: "no matter"}
      ignore_errors: true
"""
#: Speaks as ``progress`` does, from a worker.
SAY = """
import time
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        Display().display(f"{task_vars['inventory_hostname']}: 12:00:00 {self._task.args['text']}")
        time.sleep(1.5)
        return {"changed": False}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hosts").write_text(INVENTORY)
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "action_plugins").mkdir()
    (tmp_path / "action_plugins" / "say.py").write_text(SAY)
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "say.py").write_text("# on the controller\n")
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    ours = {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_STDOUT_CALLBACK": "inferops.sglang.progress",
        "ANSIBLE_NOCOLOR": "1",
        "TERM": "xterm",
        "COLUMNS": "100",
        "LINES": "30",
    }
    return {**keep, **ours, **more}


def on_a_terminal(project: Path, *words: str, **more: str) -> str:
    """Everything that a run writes to a terminal."""
    ours, theirs = pty.openpty()
    argv = [ANSIBLE, "-i", "hosts", "play.yml", *words]
    child = subprocess.Popen(argv, cwd=project, env=environment(**more), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break  # Linux says so when the last writer has gone
        if not part:
            break
        written += part
    os.close(ours)
    child.wait()
    return written.decode().replace("\r\n", "\n")


def frames(written: str) -> list[list[str]]:
    """What the terminal shows after each drawing: a cursor that goes up, and a screen that is cleared from there."""
    lines: list[str] = [""]
    seen = []
    for part in re.split(r"(\x1b\[\d+A\r\x1b\[J)", written):
        up = re.match(r"\x1b\[(\d+)A", part)
        if up:
            seen.append(lines)
            lines = [*lines[: len(lines) - 1 - int(up[1])], ""]
            continue
        head, *rest = part.split("\n")
        lines = [*lines[:-1], lines[-1] + head, *rest]
    return [*seen, lines]


def test_on_a_terminal_there_is_a_line_a_host_and_what_stays_is_what_matters(project: Path) -> None:
    shown = frames(on_a_terminal(project))
    while_waiting = [frame for frame in shown if any("Waits · tiny ▸ weights 3 of 8" in line for line in frame)]
    rows = [line for line in while_waiting[-1] if "Waits" in line]
    assert [line.split()[1] for line in rows] == ["a", "b", "c"]
    assert any(re.match(r"Three hosts · \d+ s · .*running", line) for line in while_waiting[-1])
    left = "\n".join(shown[-1])
    assert "▸" not in left and "✗" not in left and "\x1b" not in left, "rows are left on the screen"
    assert "changed: b  Changes b" in left and "changed: a" not in left
    assert left.count("failed: c  Breaks c: port 30000 is taken by pid 7") == 2, "at once, and once more at the end"
    assert "no matter" not in left
    assert re.search(r"^b +: .*changed=1 .*ignored=1", left, re.MULTILINE)


@pytest.mark.parametrize(("words", "more"), [((), {"TERM": "dumb"}), (("-v",), {})], ids=["dumb", "verbose"])
def test_where_rows_are_not_wanted_it_is_the_default_callback(
    project: Path, words: tuple[str, ...], more: dict[str, str]
) -> None:
    written = on_a_terminal(project, *words, **more)
    assert "TASK [Waits]" in written and "\x1b[J" not in written
    assert "a: 12:00:00 tiny ▸ weights 3 of 8" in written


def test_into_a_pipe_it_writes_what_the_default_callback_writes(project: Path) -> None:
    def run(callback: str) -> str:
        argv = [ANSIBLE, "-i", "hosts", "-f", "1", "play.yml"]
        told = environment(ANSIBLE_STDOUT_CALLBACK=callback)
        return subprocess.run(argv, cwd=project, env=told, capture_output=True, text=True, check=False).stdout

    assert run("inferops.sglang.progress") == run("ansible.builtin.default")


#: Fails as a wait does.
WAITED = """
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        failure = {"category": "cuda_oom", "ranks": {"TP0": {"weights": "begun"}}}
        return {"failed": True, "msg": "kimi is not ready\\n  cause  out of memory", "failure": failure, "phases": []}
"""


@pytest.mark.parametrize("loop", ["", "\n      loop: [kimi]"], ids=["once", "in a loop"])
def test_a_server_that_did_not_come_up_is_told_in_a_few_lines(project: Path, loop: str) -> None:
    (project / "action_plugins" / "say.py").write_text(WAITED)
    play = "- hosts: a\n  gather_facts: false\n  tasks:\n    - name: Waits\n      say: {}" + loop
    (project / "play.yml").write_text(play)

    def run(*words: str) -> str:
        argv = [ANSIBLE, "-i", "hosts", "play.yml", *words]
        return subprocess.run(argv, cwd=project, env=environment(), capture_output=True, text=True, check=False).stdout

    short = run()
    assert "cause  out of memory" in short
    assert "TP0" not in short and "phases" not in short
    assert "TP0" in run("-v")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_failures_and_what_runs_come_first_where_the_screen_is_low() -> None:
    view = live_view.View(clock=Clock())
    view.start("Deploy")
    for number in range(40):
        view.begin(f"gpu{number:02}", "Wait")
        if number not in (17, 39):
            view.end(f"gpu{number:02}", live_view.DONE)
    view.end("gpu39", live_view.FAILED, "out of memory")
    lines = view.lines(80, 6)
    assert len(lines) == 6
    assert lines[0] == "Deploy · 0 s · 1 failed, 1 running, 38 done"
    assert any(line.startswith("✗ gpu39") and line.endswith("out of memory") for line in lines)
    assert any(line.startswith("▸ gpu17") for line in lines)
    assert lines[-1] == "… and 36 more hosts"


def test_a_line_never_takes_two() -> None:
    view = live_view.View(clock=Clock())
    view.start("Deploy")
    view.begin("gpu1", "Wait")
    assert view.note("gpu1", "x" * 200)
    assert max(map(len, view.lines(60, 10))) == 60


@pytest.mark.parametrize("said", ["権" * 60, "a\nb" * 40, "\x1b[2J\r\x0b" * 20, "e\u0301" * 60, "\u202eabc", "plain"])
@pytest.mark.parametrize("width", [1, 20, 41, 79])
def test_nor_does_one_of_wide_characters_or_such_that_move_the_cursor(said: str, width: int) -> None:
    view = live_view.View(clock=Clock())
    view.start(said)
    view.begin(said, said)
    view.note(said, said)
    for line in view.lines(width, 10):
        assert line.isprintable()
        assert sum(map(live_view._columns, line)) <= width


def test_the_time_of_a_phase_stands_still_when_it_has_ended() -> None:
    now = Clock()
    view = live_view.View(clock=now)
    view.start("Deploy")
    view.begin("gpu1", "Wait")
    now.now = 125.0
    assert "2:05  Wait" in view.lines(80, 10)[1]
    view.end("gpu1", live_view.DONE)
    now.now = 4000.0
    assert "2:05  Wait" in view.lines(80, 10)[1]
    assert "1:06:40" in view.lines(80, 10)[0]


def test_only_a_running_host_of_the_play_speaks() -> None:
    view = live_view.View(clock=Clock())
    view.start("Deploy")
    view.begin("gpu1", "Wait")
    view.end("gpu1", live_view.DONE)
    assert not view.note("gpu1", "late") and not view.note("warning", "of somebody else")
