# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Source ``apt``: the vendor's repository, its key verified, one exact version, pinned and held.

The driver is never touched: each installation is simulated first, and refused when it would install, upgrade or remove
a package of the driver, or remove anything at all.
"""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from ..errors import InferopsError
from ..files import read_bytes, read_text, write_atomic
from ..running import Runner, check
from . import openpgp, state
from .desired import Desired

VENDOR = "https://developer.download.nvidia.com/compute/cuda/repos/{distribution}/{machine}/"
KEY_NAME = "3bf863cc.pub"
_ENV = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "NEEDRESTART_SUSPEND": "1"}
_HELPER = "/usr/lib/apt/apt-helper"
_APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120")
#: Packages of the driver, by whoever packages it.
_DRIVER = re.compile(
    r"^(nvidia-|libnvidia-|xserver-xorg-video-nvidia|cuda-drivers|libcuda1|linux-(modules|objects)-nvidia)"
)
#: Toolkit packages that such a pattern would take for the driver's.
_NO_DRIVER = re.compile(r"^(libnv|nvidia-cuda|nvidia-nsight|nvidia-gds).*-\d+-\d+$")


def install(
    runner: Runner, desired: Desired, recorded: Mapping[str, str]
) -> tuple[str, dict[str, str], dict[str, str]]:
    """The version, the packages with theirs, and the text of each configuration file that was written.

    ``recorded`` are the packages of an earlier installation of the wanted release: they come back exactly.

    :raises InferopsError: when the repository, its key, the version or the simulated installation is not right; the
        configuration of apt is then as it was.
    """
    before = {path: read_bytes(path) for path in state.apt_files(desired.minor)}
    meta = "cuda-toolkit" + state.suffix(desired.minor)
    try:
        written = configure(runner, desired)
        _update(runner, desired, next((path for path in written if path.endswith(".sources")), None))
        wanted = dict(recorded) or {meta: choose(runner, desired, meta)}
        command = ["install", "--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades"]
        command += [f"{name}={version}" for name, version in sorted(wanted.items())]
        damaged = [name for name in state.packages(desired.minor) if not _intact(runner, name)]
        command += ["--reinstall"] if damaged else []
        _simulate(runner, command)
    except InferopsError:
        _restore(before)
        raise
    check(runner, [*_APT, *command], f"installing {meta} {wanted[meta]}", env=_ENV)
    packages = {name: entry["version"] for name, entry in state.packages(desired.minor).items()}
    preferences = state.apt_files(desired.minor)[2]
    written[preferences] = pins(packages)
    write_atomic(preferences, written[preferences].encode())
    hold(runner, packages)
    return wanted[meta].partition("-")[0], packages, written


def hold(runner: Runner, packages: Iterable[str]) -> None:
    """No upgrade moves these, also not an unattended one."""
    check(runner, ["apt-mark", "hold", *sorted(packages)], "holding the toolkit's packages", env=_ENV)


def remove(runner: Runner, minor: str, last: bool) -> None:
    """Purge the packages of one minor release and its pins; with ``last``, the repository and its key too.

    :raises InferopsError: when something else would go with them.
    """
    packages = sorted(state.packages(minor))
    sources, key, preferences = state.apt_files(minor)
    if packages:
        command = ["purge", "--allow-change-held-packages", *packages]
        _simulate(runner, command, may_go=packages)
        check(runner, [*_APT, *command], f"removing CUDA {minor}", env=_ENV)
    for path in (preferences, *((sources, key) if last else ())):
        if os.path.exists(path):
            os.unlink(path)


def configure(runner: Runner, desired: Desired) -> dict[str, str]:
    """Write the repository and its key, unless the host has a source for that repository already; text by path.

    :raises InferopsError: when the key is not the expected one, whoever brought it.
    """
    sources, keyring, dummy = state.apt_files(desired.minor)
    where = repository(desired)
    other = existing_source(where, ours=sources)
    if other is not None:
        _verify_existing(other, desired)
        return {}
    key = _key(runner, desired, where)
    verify(key, desired.key_fingerprint, f"the key of {where}")
    text = f"# Written by inferops.sglang.cuda_toolkit.\nTypes: deb\nURIs: {where}\nSuites: /\nSigned-By: {keyring}\n"
    written = {sources: text, keyring: key.decode("utf-8", "replace")}
    for path in (keyring, sources):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomic(path, written[path].encode())
    return written


def repository(desired: Desired) -> str:
    """The repository's address, with a slash at its end.

    :raises InferopsError: where the vendor has none for this distribution.
    """
    if desired.repository:
        return desired.repository.rstrip("/") + "/"
    release = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', read_text("/etc/os-release") or "", re.MULTILINE))
    machine = {"x86_64": "x86_64", "aarch64": "sbsa"}.get(platform.machine())
    if release.get("ID") not in ("debian", "ubuntu") or machine is None:
        raise InferopsError(
            f"the vendor has no apt repository for {release.get('ID')} on {platform.machine()}: set repository to a "
            "mirror in the same layout, or use source 'wheels' or 'present'"
        )
    return VENDOR.format(distribution=release["ID"] + release["VERSION_ID"].replace(".", ""), machine=machine)


def existing_source(where: str, ours: str) -> str | None:
    """Another file under /etc/apt that names this repository: apt refuses two that name different keys for it."""
    folder = os.path.dirname(ours)
    paths = ["/etc/apt/sources.list", *sorted(glob.glob(f"{folder}/*.list")), *sorted(glob.glob(f"{folder}/*.sources"))]
    wanted = where.rstrip("/")
    for path in paths:
        lines = (read_text(path) or "").splitlines() if path != ours else []
        if any(re.search(re.escape(wanted) + r"/?(\s|$)", line) for line in lines if not line.lstrip().startswith("#")):
            return path
    return None


def verify(key: bytes, fingerprint: str, what: str) -> None:
    """:raises InferopsError: when the keyring holds any other key than the one with this fingerprint."""
    wanted = re.sub(r"\s", "", fingerprint).upper()
    found = openpgp.fingerprints(key)
    if found != [wanted]:
        raise InferopsError(
            f"{what} is not the expected one: found {', '.join(found)}, wanted {wanted}; nothing was installed. "
            "If the vendor has a new key, verify its fingerprint and set key_fingerprint"
        )


def _verify_existing(path: str, desired: Desired) -> None:
    named = re.search(r"signed-by[=:]\s*(/[^\s\],]+)", read_text(path) or "", re.IGNORECASE)
    if named is None or not os.path.exists(named.group(1)):
        raise InferopsError(
            f"{path} names the repository already, without a keyring of its own (Signed-By), so its key cannot be "
            "verified: add Signed-By there, or remove that entry and run this again"
        )
    with open(named.group(1), "rb") as stream:
        verify(stream.read(), desired.key_fingerprint, f"the key that {path} trusts ({named.group(1)})")


def _key(runner: Runner, desired: Desired, where: str) -> bytes:
    """The repository's key. apt's own helper fetches it: with apt's proxies and its credentials (auth.conf)."""
    source = desired.key or where + KEY_NAME
    scratch = tempfile.mkdtemp(prefix="cuda-key-")
    try:
        path = source
        if not source.startswith("/"):
            path = os.path.join(scratch, "key")
            check(runner, [_HELPER, "download-file", source, path], f"fetching the repository's key {source}", env=_ENV)
        data = read_bytes(path)
    finally:
        shutil.rmtree(scratch)
    if data is None:
        raise InferopsError(f"there is no key at {source} on this host; set key to its file or address")
    return data


def _update(runner: Runner, desired: Desired, sources: str | None) -> None:
    """Read the package lists: of our repository alone where it has its own file, for others may be broken."""
    argv = [*_APT, "update", "-o", "APT::Update::Error-Mode=any"]
    if sources is not None:
        argv += [
            "-o",
            f"Dir::Etc::sourcelist={sources}",
            "-o",
            "Dir::Etc::sourceparts=-",
            "-o",
            "APT::Get::List-Cleanup=0",
        ]
    done = runner(argv, env=_ENV)
    if done.rc != 0:
        lines = [line for line in done.stderr.splitlines() if line[:2] in ("E:", "W:")]
        raise InferopsError(
            f"reading the repository {repository(desired)} failed: {' '.join(lines) or done.stderr.strip()}",
            rc=done.rc,
        )


def choose(runner: Runner, desired: Desired, meta: str) -> str:
    """The newest package version that is the wanted release (``13.0.2-1``).

    :raises InferopsError: when the repository has none, naming those that it has.
    """
    text = check(runner, ["apt-cache", "madison", meta], f"asking for the versions of {meta}", env=_ENV)
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.count("|") >= 2]
    address = repository(desired).rstrip("/")
    versions = [row[1] for row in rows if row[2].startswith(address)]
    for version in versions:  # apt prints the newest first
        if desired.satisfied_by(version.partition("-")[0]):
            return version
    raise InferopsError(
        f"{address} has no {meta} {desired.version}: found {', '.join(versions) or 'no version at all'}; correct "
        "version, or add the packages to the repository"
    )


def pins(packages: dict[str, str]) -> str:
    """The preferences that keep each package at its version, whatever the repository gets later."""
    entries = [
        f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n" for name, version in sorted(packages.items())
    ]
    return "# Written by inferops.sglang.cuda_toolkit.\n" + "\n".join(entries)


def is_driver(package: str) -> bool:
    return _DRIVER.match(package) is not None and _NO_DRIVER.match(package) is None


def _restore(before: Mapping[str, bytes | None]) -> None:
    for path, data in before.items():
        if data is not None:
            write_atomic(path, data)
        elif os.path.exists(path):
            os.unlink(path)


def _intact(runner: Runner, package: str) -> bool:
    return runner(["dpkg", "--verify", package], env=_ENV).stdout.strip() == ""


def _simulate(runner: Runner, command: Sequence[str], may_go: Iterable[str] = ()) -> None:
    text = check(runner, [*_APT, "--simulate", *command], f"simulating apt-get {' '.join(command)}", env=_ENV)
    acts = re.findall(r"^(Inst|Remv|Purg) (\S+)", text, re.MULTILINE)
    touched = sorted({name for dummy, name in acts if is_driver(name)})
    gone = sorted({name for act, name in acts if act != "Inst"} - set(may_go))
    if touched or gone:
        words = f"touch the driver ({', '.join(touched)})" if touched else f"remove {', '.join(gone)}"
        raise InferopsError(
            f"'apt-get {' '.join(command)}' would {words}, so it was not run: resolve that by hand, or use source "
            "'wheels', which changes no package",
        )


def refuse_credentials(desired: Desired) -> None:
    """:raises InferopsError: when an address carries a password: it would stand in a world-readable file."""
    for name, value in (("repository", desired.repository), ("key", desired.key)):
        if urlsplit(value).password:
            raise InferopsError(f"toolkit: {name} holds a password; put it into a file under /etc/apt/auth.conf.d")
