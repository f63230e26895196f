"""A signed apt repository in the vendor's layout, with packages of the vendor's names, made and served by the test.

The packages hold the vendor's real compiler, taken out of its wheels, so what they install really compiles.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import shutil
import subprocess
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

BELOW = "compute/cuda/repos/debian12/x86_64"
KEY = "3bf863cc.pub"
HOME = "usr/local/cuda-13.0"
#: The bridge of the sandbox, which its hosts know as ``controller``.
ADDRESS = "10.213.66.1"


class Signer:
    """A key of its own in a keyring of its own."""

    def __init__(self, home: Path, name: str) -> None:
        home.mkdir(mode=0o700, parents=True)
        self._gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
        self._gpg += ["--passphrase", ""]
        self._run("--quick-gen-key", name, "rsa2048", "sign", "never")
        listed = self._run("--with-colons", "-k", name).decode()
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr"))
        self.public = self._run("--armor", "--export", name)

    def sign(self, release: Path) -> None:
        for flags, name in ((["--clearsign"], "InRelease"), (["--armor", "--detach-sign"], "Release.gpg")):
            self._run("--yes", "--output", str(release.with_name(name)), *flags, str(release))

    def _run(self, *words: str) -> bytes:
        return subprocess.run([*self._gpg, *words], check=True, capture_output=True).stdout


class Repository:
    """``publish`` after each change: packages, lists, signature."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.folder, self._scratch, self._root = root / BELOW, scratch, root
        self.folder.mkdir(parents=True)

    def package(
        self,
        name: str,
        version: str,
        *,
        depends: Sequence[str] = (),
        wheel: tuple[Path, Sequence[str]] | None = None,
        scripts: Mapping[str, str] | None = None,
    ) -> None:
        """Build one package; ``wheel`` gives the file and the parts below ``nvidia/cu13`` that go into it."""
        tree = self._scratch / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        for path in (tree, tree / "DEBIAN"):
            path.chmod(0o755)
        fields = {"Package": name, "Version": version, "Architecture": "amd64", "Maintainer": "test <test@example.com>"}
        fields.update({"Depends": ", ".join(depends)} if depends else {})
        text = "".join(f"{key}: {value}\n" for key, value in fields.items()) + "Description: test\n"
        (tree / "DEBIAN/control").write_text(text)
        for script, body in (scripts or {}).items():
            (tree / "DEBIAN" / script).write_text("#!/bin/sh\nset -e\n" + body)
            (tree / "DEBIAN" / script).chmod(0o755)
        if wheel is not None:
            _unpack(*wheel, tree / HOME)
        if name == "cuda-cudart-dev-13-0":
            (tree / HOME / "lib64").symlink_to("lib")
            (tree / HOME / "lib/libcudart.so").symlink_to("libcudart.so.13")
        argv = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(self.folder)]
        subprocess.run(argv, check=True, capture_output=True)
        shutil.rmtree(tree)

    def publish(self, signer: Signer, key: bytes | None = None) -> None:
        """Write the lists and sign them; ``key`` is what is offered as the key, the signer's unless given."""
        scanned = subprocess.run(
            ["dpkg-scanpackages", "--multiversion", "."], cwd=self.folder, check=True, capture_output=True
        ).stdout
        (self.folder / "Packages").write_bytes(scanned)
        (self.folder / "Packages.gz").write_bytes(gzip.compress(scanned))
        lines = ["Origin: NVIDIA", "Label: NVIDIA CUDA", "Architectures: amd64", f"Date: {formatdate(usegmt=True)}"]
        lines.append("SHA256:")
        for name in ("Packages", "Packages.gz"):
            data = (self.folder / name).read_bytes()
            lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}")
        (self.folder / "Release").write_text("\n".join(lines) + "\n")
        signer.sign(self.folder / "Release")
        (self.folder / KEY).write_bytes(signer.public if key is None else key)

    @contextmanager
    def served(self) -> Iterator[str]:
        """The repository's address as hosts see it, while inside."""
        handler = functools.partial(_Quiet, directory=str(self._root))
        with http.server.ThreadingHTTPServer((ADDRESS, 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://controller:{server.server_port}/{BELOW}/"
            finally:
                server.shutdown()
                thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *dummy: object) -> None:
        """Say nothing: the requests are no part of a test's output."""


def toolkit(repository: Repository, wheels: Path) -> None:
    """The packages of CUDA 13.0 in the updates 1 and 2, and one release whose packages drag the driver along."""
    at = {path.name.partition("-")[0]: path for path in sorted(wheels.glob("*-13.0.*.whl"))}
    at.update({path.name.partition("-")[0]: path for path in wheels.glob("nvidia_cublas-13.1.0.3-*.whl")})
    at.update({path.name.partition("-")[0]: path for path in wheels.glob("nvidia_curand-10.4.0.35-*.whl")})
    parts: list[tuple[str, str, str, Sequence[str]]] = [
        ("cuda-nvcc-13-0", "13.0.88-1", "nvidia_cuda_nvcc", ["bin/", "include/"]),
        ("libnvvm-13-0", "13.0.88-1", "nvidia_nvvm", ["nvvm/"]),
        ("cuda-crt-13-0", "13.0.88-1", "nvidia_cuda_crt", ["include/"]),
        ("cuda-cudart-dev-13-0", "13.0.96-1", "nvidia_cuda_runtime", ["include/", "lib/"]),
        ("cuda-cccl-13-0", "13.0.85-1", "nvidia_cuda_cccl", ["include/"]),
        ("libcublas-dev-13-0", "13.1.0.3-1", "nvidia_cublas", ["include/"]),
        ("libcurand-dev-13-0", "10.4.0.35-1", "nvidia_curand", ["include/"]),
    ]
    for name, version, wheel, kept in parts:
        repository.package(name, version, wheel=(at[wheel], kept))
    register = "update-alternatives --install /usr/local/cuda cuda /usr/local/cuda-13.0 130\n"
    withdraw = 'test "$1" != remove || update-alternatives --remove cuda /usr/local/cuda-13.0\n'
    scripts = {"postinst": register, "prerm": withdraw}
    repository.package("cuda-toolkit-13-0-config-common", "13.0.96-1", scripts=scripts)
    depends = [name for name, *dummy in parts] + ["cuda-toolkit-13-0-config-common"]
    for version in ("13.0.1-1", "13.0.2-1"):
        repository.package("cuda-toolkit-13-0", version, depends=depends)
    repository.package("cuda-drivers", "580.95.05-1")
    repository.package("cuda-toolkit-13-1", "13.1.0-1", depends=["cuda-drivers"])


def _unpack(wheel: Path, kept: Sequence[str], target: Path) -> None:
    base = "nvidia/cu13/"
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename[len(base) :] if entry.filename.startswith(base) else ""
            if name.startswith(tuple(kept)) and not entry.is_dir() and not name.endswith("__init__.py"):
                path = target / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))
                path.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)
