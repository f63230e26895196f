"""``sglang_patch`` on environments that their owner keeps, with the real SGLang in them: patched, imported, served."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import unit_host

ROOT = Path(__file__).resolve().parent.parent.parent
SSH_CONFIG = "/var/lib/inferops-sandbox/ssh/config"
HOST = "patch1"
USER_KEY, ADMIN_KEY = "sk-planted-user-0123456789", "sk-planted-admin-9876543210"
pytestmark = pytest.mark.sandbox


def ssh(command: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["ssh", "-F", SSH_CONFIG, HOST, command], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> str:
    subprocess.run([sys.executable, "-m", "tests.sandbox", "up", "--serving", HOST], cwd=ROOT, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox", "inventory", HOST], cwd=ROOT, check=True, capture_output=True, text=True
    )
    path = tmp_path_factory.mktemp("patch") / "hosts.json"
    path.write_text(done.stdout)
    return str(path)


@pytest.mark.parametrize("release", ["0.5.9", "0.5.23"])
def test_patched_in_place_a_real_server_keeps_its_keys_to_itself(
    release: str, inventory: str, play: Callable[..., Any]
) -> None:
    env = f"/root/ml-env-{release}"
    unit_host.own_environment(HOST, release, env)
    wanted = ["redact_api_keys", "kimi_k25_eagle3_delegation", "sm120_symm_mem", "eagle3_draft_lm_head"]
    states = ["present", *(["present"] * 2 if release == "0.5.9" else ["not_needed"] * 2), "present"]

    def patch(**options: Any) -> dict[str, Any]:
        check = options.pop("check", False)
        done = play(
            "tests/integration/patch_in_place.yml",
            inventory=inventory,
            check=check,
            patch_target=f"{env}/bin/python",
            patch_options={"patches": wanted, **options},
        )
        assert done.status == "successful", done.stdout
        (result,) = done.results(HOST, "sglang_patch")
        return result

    foretold = patch(check=True)
    assert foretold["changed"] and foretold["integrity"] == []
    result = patch(verify_import=True)
    assert result["changed"] and result["integrity"] == [] and result["release"] == release
    assert all("grpc" in one for one in result["unverified"]), "the sandbox has no grpc, and everything else"
    assert [one["state"] for one in result["patches"]] == states
    assert [one["state"] for one in foretold["patches"]] == states
    assert foretold["diff"] and foretold["diff"] == result["diff"]
    again = patch(verify_import=True)
    assert not again["changed"] and [one["state"] for one in again["patches"]] == states

    script = (ROOT / "tests/integration/patch_server.py").read_text()
    told = json.loads(ssh(shlex.join(["python3", "-", f"{env}/bin/python", USER_KEY, ADMIN_KEY]), script))
    assert told["without_key"] == 401 and told["with_key"] == 200
    for what in ("server_info", "get_server_info"):
        status, body = told[what]
        info = json.loads(body)
        assert status == 200 and info["model_path"] == "/srv/models/tiny-llama-echo"
        assert info["api_key"] == info["admin_api_key"] == "<redacted>"
    assert told["dumps"], "no crash dump was written: " + told["log"][-2000:]
    assert "server_args=" in told["log"] and all("<redacted>" in dump for dump in told["dumps"])
    for key in (USER_KEY, ADMIN_KEY):
        assert key not in told["log"] and key not in json.dumps(told)

    gone = patch(state="absent")
    assert gone["changed"] and gone["integrity"] == []
    assert not patch(state="absent")["changed"]
    assert ssh(f"cd {env}/lib/python3.11/site-packages; find . -name '.inferops*'") == ""


def test_a_sealed_build_is_refused(inventory: str, play: Callable[..., Any]) -> None:
    build = "/opt/sglang/builds/patch-test-0123456789ab.1"
    site = f"{build}/lib/python3.11/site-packages"
    ssh(f'mkdir -p {site}/sglang && echo \'{{"build_id": "patch-test-0123456789ab"}}\' > {build}/manifest.json')
    done = play(
        "tests/integration/patch_in_place.yml",
        inventory=inventory,
        patch_target=site,
        patch_options={"patches": ["redact_api_keys"]},
    )
    assert "a sealed build is never changed" in done.failure(HOST)
    ssh(f"rm -rf {build}")
