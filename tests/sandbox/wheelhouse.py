"""The folder of wheels that hosts install from; filled once on this machine, from the locks, and verified.

pip does the fetching because it honours this machine's own configuration (indexes, folders of wheels, proxies), where a
CPU build of torch may already lie; uv looks nowhere but at the public index.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import settings, wheels
from .files import write
from .locking import lock
from .pins import Pin, missing, normalise, pins, wheel_identity
from .shell import SandboxError, run, say, step, succeeds

LOCK_FOLDER = Path(__file__).resolve().parent.parent.parent / "locks"
#: Needed on hosts beside what the locks name.
TOOLS = "uv==0.13.9\n"
#: PyTorch's own index of CPU builds; the default index offers a build for CUDA under the same version.
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
#: What is in the wheelhouse: digest of the inputs, and size, time and hash of each file.
CONTENTS = settings.CACHE / "wheelhouse.json"

#: Hosts have glibc 2.36 (Debian 12).
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)]
_PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]


def ensure() -> None:
    """Fill the wheelhouse for all CPU locks; in no time when it is complete. Raises SandboxError."""
    if platform.machine() != "x86_64":
        raise SandboxError(
            f"the CPU locks are made for x86_64; this machine is {platform.machine()}: use light hosts only"
        )
    locks = {path.parent.name: path.read_text(encoding="utf-8") for path in lock_files()}
    with lock("wheelhouse"):
        contents = _contents()
        digest = _inputs_digest(locks)
        if contents.get("inputs") == digest and _untouched(contents["files"]):
            return
        _fill(locks, contents)
        write(CONTENTS, json.dumps({"inputs": digest, "files": _state(contents)}, indent=1) + "\n")


def lock_files() -> list[Path]:
    """The requirements of the CPU locks that the collection ships."""
    return sorted(LOCK_FOLDER.glob("*-cpu/requirements.txt"))


def _contents() -> dict:
    try:
        return json.loads(CONTENTS.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def _inputs_digest(locks: dict[str, str]) -> str:
    own = [
        [wheel.filename, {name: data.decode() for name, data in wheel.content().items()}]
        for wheel in wheels.LOCAL_WHEELS
    ]
    return hashlib.sha256(json.dumps([locks, TOOLS, own], sort_keys=True).encode()).hexdigest()


def _untouched(files: dict) -> bool:
    """Whether every recorded file still has its size and time; hashes were checked when it came."""
    for name, entry in files.items():
        try:
            found = (settings.WHEELHOUSE / name).stat()
        except FileNotFoundError:
            return False
        if [found.st_size, found.st_mtime_ns] != entry[:2]:
            return False
    return True


def _state(before: dict) -> dict[str, list]:
    """Size, time and hash of each wheel; a hash is computed again only for a file that changed."""
    state = {}
    for path in sorted(settings.WHEELHOUSE.glob("*.whl")):
        found = path.stat()
        known = before.get("files", {}).get(path.name, [None, None, None])
        same = known[:2] == [found.st_size, found.st_mtime_ns]
        state[path.name] = [found.st_size, found.st_mtime_ns, known[2] if same else sha256(path)]
    return state


def sha256(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _fill(locks: dict[str, str], before: dict) -> None:
    groups = groups_of({**locks, "tools": TOOLS})
    _discard_wrong((pin for group in groups.values() for pin in group), before)
    for wheel in wheels.LOCAL_WHEELS:
        wheels.build(wheel, settings.WHEELHOUSE)
    present = [path.name for path in settings.WHEELHOUSE.iterdir()]
    groups = {title: absent for title, wanted in groups.items() if (absent := missing(wanted, present))}
    if not groups:
        return
    count = sum(map(len, groups.values()))
    pip = _pip()
    with step(f"wheelhouse: fetching {count} wheels"), ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda title: _fetch(pip, title, groups[title]), groups))


def groups_of(texts: dict[str, str]) -> dict[str, list[Pin]]:
    """What pip fetches in one go: each pin once, with the first text that has it (within a text no two versions of a
    name meet), and torch on its own."""
    own = {normalise(wheel.name) for wheel in wheels.LOCAL_WHEELS}
    known: set[Pin] = set()
    groups: dict[str, list[Pin]] = {"torch": []}
    for title, text in texts.items():
        fresh = [pin for pin in pins(text) if pin not in known and pin.name not in own]
        known.update(fresh)
        groups[title] = [pin for pin in fresh if pin.name != "torch"]
        groups["torch"] += [pin for pin in fresh if pin.name == "torch"]
    return groups


def _discard_wrong(wanted: Iterable[Pin], before: dict) -> None:
    """Remove files that changed since they were verified, and leftovers that no lock names."""
    names = {(pin.name, pin.version): pin for pin in wanted}
    for path in settings.WHEELHOUSE.glob("*.whl"):
        pin = names.get(wheel_identity(path.name))
        entry = before.get("files", {}).get(path.name)
        found = path.stat()
        same = entry is not None and entry[:2] == [found.st_size, found.st_mtime_ns]
        digest = entry[2] if same and entry else sha256(path)
        if pin is None or (pin.hashes and digest not in pin.hashes) or (entry and digest != entry[2]):
            path.unlink()


def _pip() -> list[str]:
    """A pip in an environment of its own: a plain system Python often has none."""
    home = settings.TOOLS / f"pip-{sys.version_info.major}.{sys.version_info.minor}"
    argv = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    if not succeeds([*argv, "--version"]):
        if home.exists():
            shutil.rmtree(home)
        run([sys.executable, "-m", "venv", str(home)])
    return argv


def _fetch(pip: Sequence[str], title: str, wanted: Sequence[Pin]) -> None:
    """Fetch one group into a folder aside, verify each file, and move them into the wheelhouse."""
    aside = settings.CACHE / f"wheelhouse.{title}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    argv = [*pip, "download", "--quiet", "--no-deps", "--only-binary=:all:", f"--dest={aside}"]
    argv += [f"--python-version={settings.PYTHON}", "--implementation=cp"]
    argv += [f"--abi={abi}" for abi in ("cp" + settings.PYTHON.replace(".", ""), "abi3", "none")]
    argv += [f"--platform={platform}" for platform in _PLATFORMS]
    argv += [pin.requirement for pin in wanted]
    log = settings.CACHE / f"wheelhouse.{title}.log"
    if title == "torch":
        _fetch_torch(argv, log)
    else:
        run(argv, log=log)
    by_identity = {(pin.name, pin.version): pin for pin in wanted}
    for path in aside.iterdir():
        pin = by_identity.get(wheel_identity(path.name))
        digest = sha256(path)
        if pin is not None and pin.hashes and digest not in pin.hashes:
            raise SandboxError(
                f"{path.name} has the hash {digest}, but the lock wants {' or '.join(sorted(pin.hashes))}; "
                "the index of this machine gives another file under that name"
            )
        os.rename(path, settings.WHEELHOUSE / path.name)
    aside.rmdir()
    absent = missing(wanted, [path.name for path in settings.WHEELHOUSE.iterdir()])
    if absent:
        raise SandboxError(f"pip fetched no wheel for {', '.join(pin.requirement for pin in absent)}; see {log}")


def _fetch_torch(argv: Sequence[str], log: Path) -> None:
    if _reachable(f"{TORCH_INDEX}/torch/"):
        run([*argv, f"--index-url={TORCH_INDEX}"], log=log)
        return
    say(f"{TORCH_INDEX} cannot be reached; torch comes from what pip is configured with on this machine")
    try:
        run(argv, log=log)
    except SandboxError as error:
        raise SandboxError(
            f"no CPU build of torch: {TORCH_INDEX} cannot be reached, and pip's own configuration offers none. Put the "
            f"wheel into {settings.WHEELHOUSE} by hand, or name a folder that has it: PIP_FIND_LINKS=FOLDER.\n{error}"
        ) from error


def _reachable(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except (urllib.error.URLError, OSError):
        return False
