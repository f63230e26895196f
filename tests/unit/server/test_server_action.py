"""What only the controller knows: unknown keys, the agent, and which run this is."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.plugin_utils import desired, this_run


def test_unknown_keys_are_refused_before_a_host_is_asked() -> None:
    with pytest.raises(InferopsError, match="did you mean 'model_path'"):
        desired.complete([{"name": "a", "model_path": "/m", "modelpath": "/m"}])


def test_what_the_caller_has_put_there_is_left() -> None:
    build, agent = {"build_id": "x"}, {"version": "y"}
    (done,) = desired.complete([{"name": "a", "model_path": "/m", "build": build, "agent": agent}])
    assert done["build"] == build
    assert done["agent"] == agent


def test_the_agent_is_added() -> None:
    (done,) = desired.complete([{"name": "a", "model_path": "/m", "build": {"build_id": "x"}}])
    assert len(done["agent"]["version"]) == 16


def test_a_run_knows_itself_and_whether_another_is_over() -> None:
    run = this_run.this_run()
    assert run["id"].startswith(f"{socket.gethostname()}/{os.getppid()}/")
    assert not this_run.is_over(run["id"])
    assert this_run.lives(run["id"])
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert this_run.is_over(f"{socket.gethostname()}/{child.pid}/1")
    assert this_run.is_over(f"{socket.gethostname()}/{os.getppid()}/1")
    assert not this_run.is_over(f"elsewhere/{child.pid}/1")
    assert not this_run.is_over("by hand")


def _orphan(queue: Any, ended: Any) -> None:
    ended.wait(10)
    try:
        queue.put(this_run.this_run())
    except AnsibleActionFail as error:
        queue.put(str(error))


def _parent(queue: Any, ended: Any) -> None:
    multiprocessing.get_context("fork").Process(target=_orphan, args=(queue, ended)).start()
    os._exit(0)


def test_a_worker_that_outlives_its_run_changes_nothing() -> None:
    context = multiprocessing.get_context("fork")
    queue, ended = context.Queue(), context.Event()
    run = context.Process(target=_parent, args=(queue, ended))
    run.start()
    run.join()
    ended.set()
    assert "has ended; nothing was changed" in queue.get(timeout=10)
