"""Builds on a host: the ladder of a managed thing, and proofs that fail while a server is under requests.

The server is the stand-in, in a real build: lock, patch, proof, seal. What is wrong with a set is made by
``wrong_sets``, one wheel or two a kind.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fleet
import pytest
import wrong_sets
import yaml
from conftest import Play, Run
from unit_host import SSH_CONFIG, sandbox, ssh

pytestmark = pytest.mark.sandbox

HOST = "build1"
LOCK = fleet.ROOT / "tests" / "stand_in" / "locks" / "stand-in-0.5.9"
PATCH = "kimi_k25_eagle3_delegation"
PATCHED = "lib/python3.11/site-packages/sglang/srt/models/kimi_k25.py"

# Asks for a generation again and again until it is told to end; prints how many came and what went wrong.
ASK = """
import json, os, time, urllib.request
came, wrong = 0, []
body = json.dumps({"text": "a", "sampling_params": {"max_new_tokens": 4}}).encode()
request = urllib.request.Request("http://127.0.0.1:30000/generate", body, {"Content-Type": "application/json"})
while not os.path.exists("/tmp/enough"):
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            came += answer.status == 200
    except OSError as error:
        wrong.append(str(error))
    time.sleep(0.1)
print(json.dumps({"came": came, "wrong": wrong}))
"""


class Site:
    """One host's inventory; each test changes what it wants of the instance, and the role's ``variables``."""

    def __init__(self, folder: Path, play: Play, host: str = HOST, **variables: Any) -> None:
        self.folder = folder
        self.play = play
        self.host = host
        self.variables = variables
        self.instance: dict[str, Any] = {
            "model_path": "/srv/models/tiny-llama",
            "gpus": "none",
            "lock": str(LOCK),
            "patches": [PATCH],
            "acknowledge": ["unit_limits"],
        }

    def deploy(self, check: bool = False, **change: Any) -> Run:
        common = {"ansible_ssh_common_args": f"-F {SSH_CONFIG}", "ansible_python_interpreter": "/usr/bin/python3"}
        wanted = {**self.variables, "sglang_instances": {"tiny": {**self.instance, **change}}}
        group = {"hosts": {self.host: {}}, "vars": wanted}
        path = self.folder / "inventory.json"
        path.write_text(json.dumps({"all": {"vars": common, "children": {"sglang": group}}}))
        return self.play(inventory=str(path), check=check)

    def in_force(self) -> dict[str, str]:
        """All that a failed build must leave as it is."""
        return {
            "pid": on("systemctl show -P MainPID sglang-tiny"),
            "start": on("systemctl show -P InvocationID sglang-tiny"),
            "unit": on("sha256sum /etc/systemd/system/sglang-tiny.service /etc/sglang/*"),
            "activations": on("find /opt/sglang/tiny -type f ! -name 'lease*' -exec sha256sum {} + | sort"),
            "current": on("readlink /opt/sglang/tiny/current"),
        }


def on(command: str, host: str = HOST) -> str:
    return ssh(host, command).strip()


def built() -> list[str]:
    return on("ls /opt/sglang/builds").split()


def changes(run: Run, host: str = HOST) -> list[str]:
    """What the comparison of a run found."""
    plan: list[dict[str, Any]] = run.results(host, "sglang_plan")[0]["plan"]
    return [f"{change['resource'].partition('/')[0]} {change['what']}" for change in plan]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    fleet.fill_caches()
    wrong = tmp_path_factory.mktemp("wheels")
    wrong_sets.fill(wrong)
    sandbox("up", HOST, "--mount", f"{fleet.STAND_IN}:/srv/stand-in", "--mount", f"{wrong}:/srv/wrong")
    yield
    sandbox("down", HOST)


@pytest.fixture
def site(host: None, tmp_path: Path, play: Play) -> Site:
    return Site(tmp_path, play, sglang_find_links=["/srv/stand-in", "/srv/wrong"])


def test_the_ladder(site: Site) -> None:
    foretold = site.deploy(check=True)
    assert foretold.status == "successful", foretold.stdout[-3000:]
    assert "build environment" in changes(foretold) and on("ls -A /opt") == "", "check mode changes nothing"

    first = site.deploy()
    assert first.status == "successful", first.stdout[-3000:]
    [name] = built()
    assert on(f"/opt/sglang/builds/{name}/bin/python -c 'import sglang; print(sglang.__file__)'").startswith(
        "/opt/sglang/"
    )
    again = site.deploy()
    assert again.count("changed", HOST) == 0 and changes(again) == []

    before = site.in_force()
    on(f"sed -i '1i # by hand' /opt/sglang/builds/{name}/{PATCHED}")
    packages = f"/opt/sglang/builds/{name}/lib/python3.11/site-packages"
    on(f"cp -r {packages}/sglang-0.5.9+standin.dist-info {packages}/sglang-0.5.8+standin.dist-info")
    foretold = site.deploy(check=True)
    assert f"build patched file ({PATCH}) sglang/srt/models/kimi_k25.py" in changes(foretold)
    assert "build package sglang" in changes(foretold)
    assert site.in_force() == before and built() == [name]

    repaired = site.deploy()
    assert repaired.status == "successful", repaired.stdout[-3000:]
    assert built() == [name, name[:-1] + "2"], "what was in force may be restored, so it stays"
    assert on("readlink -f /opt/sglang/tiny/current") == f"/opt/sglang/builds/{name[:-1]}2"
    assert on(f"/opt/sglang/builds/{name[:-1]}2/bin/python -c 'import sglang.srt.models.kimi_k25'") == ""
    again = site.deploy()
    assert again.count("changed", HOST) == 0 and changes(again) == []


def lock_of(folder: Path, pins: str, **description: Any) -> str:
    """A lock like the stand-in's with something wrong in it."""
    target = folder / "stand-in-wrong"
    shutil.copytree(LOCK, target)
    described = {**yaml.safe_load((target / "lock.yml").read_text()), **description}
    (target / "lock.yml").write_text(yaml.safe_dump(described))
    (target / "requirements.txt").write_text(pins)
    return str(target)


PIN = "sglang==0.5.9+standin\n"
CONFLICT = {
    "name": "conflict",
    "title": "Changes what is not there",
    "why": "a test",
    "upstream": "nowhere",
    "applies_to": ">=0.5.7",
    "edits": [{"replace": {"file": "srt/models/kimi_k25.py", "old": "no such text", "new": "x", "count": 1}}],
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda folder: {"lock": lock_of(folder, PIN, release="0.5.15")}, "the lock is for 0.5.15"),
        (lambda folder: {"lock": lock_of(folder, PIN + "absent==1\n")}, "absent"),
        (lambda folder: {"patches": [PATCH, CONFLICT]}, "the patches cannot be applied"),
    ],
    ids=["release", "missing-wheel", "patch-conflict"],
)
def test_a_build_that_fails_leaves_the_server_as_it_is(
    site: Site, tmp_path: Path, wrong: Callable[[Path], dict[str, Any]], message: str
) -> None:
    fails_and_leaves_the_server(site, wrong(tmp_path), message)


@pytest.mark.parametrize("case", wrong_sets.SETS, ids=lambda case: case.name)
def test_a_set_that_fails_its_proof_leaves_the_server_as_it_is(
    site: Site, tmp_path: Path, case: wrong_sets.WrongSet
) -> None:
    """Every kind of check that a proof makes."""
    site.variables["sglang_capabilities"] = case.capabilities
    pins = PIN + "".join(f"{pin}\n" for pin in case.pins)
    fails_and_leaves_the_server(site, {"lock": lock_of(tmp_path, pins, cuda=case.cuda)}, f"- {case.check}: {case.says}")


def test_a_waiver_of_the_inventory_excuses_a_pin_and_never_what_no_server_can_run_without(
    site: Site, tmp_path: Path
) -> None:
    [pin] = [case for case in wrong_sets.SETS if case.name == "broken-pin"]
    site.variables["sglang_waivers"] = [{"check": pin.check, "reason": "a test"}]
    excused = site.deploy(lock=lock_of(tmp_path, PIN + "\n".join(pin.pins) + "\n"))
    assert excused.status == "successful", excused.stdout[-3000:]
    [built] = excused.results(HOST, "python_env")
    [check] = [check for check in built["results"][0]["proof"]["checks"] if check["name"] == pin.check]
    assert (check["ok"], check["waived"]) == (False, "a test")

    [kernel] = [case for case in wrong_sets.SETS if case.name == "import"]
    site.variables["sglang_waivers"] = [{"check": kernel.check, "reason": "a test"}]
    lock = lock_of(tmp_path / "hard", PIN + "\n".join(kernel.pins) + "\n")
    fails_and_leaves_the_server(site, {"lock": lock}, f"{kernel.check} cannot be waived", first=False)


def fails_and_leaves_the_server(site: Site, wrong: dict[str, Any], message: str, first: bool = True) -> None:
    """Deploy ``wrong`` while a client asks without a pause; ``first`` bring what is right into force."""
    variables = dict(site.variables)
    if first:
        site.variables = {"sglang_find_links": variables["sglang_find_links"]}
        assert site.deploy().status == "successful"
        site.variables = variables
    before, builds = site.in_force(), built()
    on("rm -f /tmp/enough")
    argv = ["ssh", "-F", SSH_CONFIG, HOST, f"python3 -c {shlex.quote(ASK)}"]
    asking = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        failed = site.deploy(**wrong)
    finally:
        on("touch /tmp/enough")
        answers = json.loads(asking.communicate(timeout=90)[0])
    # builds are made in a loop, whose own message says nothing
    said = [str(e["event_data"]["res"]["msg"]) for e in failed.events if e["event"] == "runner_item_on_failed"]
    assert failed.status == "failed" and len(said) == 1 and message in said[0], failed.stdout[-3000:]
    assert answers["came"] > 5 and answers["wrong"] == []
    assert site.in_force() == before and built() == builds
