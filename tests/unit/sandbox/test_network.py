"""Addresses, names and the ssh configuration of hosts."""

from __future__ import annotations

import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from sandbox import mirrors, network, records, ssh
from sandbox.shell import SandboxError


def test_a_network_that_a_route_covers_or_touches_is_passed_over() -> None:
    routes = ["default", "10.213.0.0/16", "10.167.89.128/25", "fd00::/64"]
    assert network.choose(["10.213.66.0/24", "10.167.89.0/24", "172.29.213.0/24"], routes) == IPv4Network(
        "172.29.213.0/24"
    )


def test_no_free_network_is_said() -> None:
    with pytest.raises(SandboxError, match="in use"):
        network.choose(["10.213.66.0/24"], ["10.0.0.0/8"])


def test_addresses_are_the_lowest_free_ones_and_run_out() -> None:
    subnet = IPv4Network("10.0.0.0/28")
    taken: list[str] = []
    for dummy in range(5):
        taken.append(network.free_address(subnet, taken))
    assert taken == ["10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"]
    taken.remove("10.0.0.11")
    assert network.free_address(subnet, taken) == "10.0.0.11"
    with pytest.raises(SandboxError, match="are taken"):
        network.free_address(subnet, [*taken, "10.0.0.11"])


@pytest.mark.parametrize("name", ["", "A", "1a", "a_b", "a/b", "../x", "a.b", "a" * 42, "-a", "a b"])
def test_a_name_that_no_host_can_have_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="cannot be a host's name"):
        records.checked(name)


def test_ssh_itself_reads_the_configuration_as_meant(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(ssh.render([("sgl1", "10.0.0.10"), ("sgl10", "10.0.0.11")]), encoding="utf-8")
    said = subprocess.run(["ssh", "-G", "-F", str(config), "sgl1"], capture_output=True, text=True, check=True).stdout
    values = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    assert (values["hostname"], values["hostkeyalias"], values["user"]) == ("10.0.0.10", "sgl1", "root")
    assert values["identityfile"] == str(ssh.KEY)
    assert values["userknownhostsfile"] == str(ssh.KNOWN_HOSTS)
    assert values["stricthostkeychecking"] in ("yes", "true")


def test_mirrors_are_the_web_sites_of_main_once_each_in_order() -> None:
    text = (
        "http://a.example/debian main\nhttp://a.example/debian/ contrib\nhttps://b.example/debian/ main\n"
        "cdrom:[x] main\nhttp://a.example/debian main\nfile:/srv/debian main\n\n"
    )
    assert mirrors.sites(text) == ["http://a.example/debian", "https://b.example/debian"]
