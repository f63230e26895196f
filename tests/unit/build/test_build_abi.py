"""ELF tables and what they say of a fit: on libraries that the test compiles, and on the system's own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.build import abi, elf, fit
from ansible_collections.inferops.sglang.plugins.module_utils.build.installed import Distribution

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

#: A torch with one function, and the same torch a release later: its argument changed from int to unsigned.
TORCH = 'namespace c10 { namespace cuda { __attribute__((visibility("default"))) void check(%s, const char *) {} } }\n'
KERNEL = (
    "namespace c10 { namespace cuda { void check(%s, const char *); } }\n"
    'extern "C" void run() { c10::cuda::check(1, ""); }\n'
)


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    argv = ["g++", "-shared", "-fPIC", "-x", "c++", "-", "-o", str(target), "-x", "none", f"-Wl,-soname,{name}", *flags]
    subprocess.run(argv, input=source, text=True, check=True, capture_output=True)
    return target


class Environment:
    """A ``site-packages`` with a torch and a kernel package, as wheels lay them out."""

    def __init__(self, root: Path) -> None:
        self.packages = root / "site-packages"
        self.torch = self.packages / "torch" / "lib"

    def add_torch(self, argument: str) -> None:
        compiled(self.torch, "libc10_cuda.so", TORCH % argument)

    def add_kernel(self, argument: str, *flags: str) -> Path:
        against = ["-L", str(self.torch), "-lc10_cuda", "-Wl,--unresolved-symbols=ignore-all", *flags]
        return compiled(self.packages / "sgl_kernel" / "sm100", "common_ops.abi3.so", KERNEL % argument, *against)

    def judge(self, path: Path) -> abi.Finding:
        return abi.Environment(sys.executable, str(self.packages)).judge(str(path))


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


def test_a_kernel_made_for_this_torch_fits(environment: Environment) -> None:
    environment.add_torch("int")
    assert environment.judge(environment.add_kernel("int")) == abi.Finding("sgl_kernel/sm100/common_ops.abi3.so")


def test_f1_f6_a_kernel_made_for_another_torch_is_found_with_library_symbol_and_torch(environment: Environment) -> None:
    environment.add_torch("unsigned")
    finding = environment.judge(environment.add_kernel("int"))
    assert finding.symbols == ["_ZN3c104cuda5checkEiPKc"] and not finding.missing
    kernel = Distribution("", "sglang-kernel", "0.4.4", "0.4.4")
    assert fit.mismatch([finding], [kernel], "2.14.1+cu130") == (
        "sgl_kernel/sm100/common_ops.abi3.so needs c10::cuda::check, not in torch 2.14.1+cu130 "
        "(first: _ZN3c104cuda5checkEiPKc); sglang-kernel 0.4.4 was released for torch 2.11.0"
    )


def test_a_weak_symbol_may_be_missing(environment: Environment) -> None:
    environment.add_torch("int")
    source = 'extern "C" void absent() __attribute__((weak));\nextern "C" void run() { if (absent) absent(); }\n'
    assert environment.judge(compiled(environment.packages / "sgl_kernel", "weak.so", source)).symbols == []


def test_f5_a_library_that_is_nowhere_is_named_and_its_symbols_are_not_held_against_torch(
    environment: Environment, tmp_path: Path
) -> None:
    environment.add_torch("unsigned")
    elsewhere = tmp_path / "elsewhere"
    compiled(elsewhere, "libnvrtc.so.12", 'extern "C" __attribute__((visibility("default"))) void nvrtcGo() {}\n')
    source = 'extern "C" void nvrtcGo();\nextern "C" void go() { nvrtcGo(); }\n'
    library = compiled(environment.packages / "sgl_kernel", "a.so", source, str(elsewhere / "libnvrtc.so.12"))
    finding = environment.judge(library)
    assert (finding.missing, finding.symbols) == (["libnvrtc.so.12"], [])
    home = environment.packages / "nvidia" / "cu13" / "lib"
    home.mkdir(parents=True)
    shutil.copy(elsewhere / "libnvrtc.so.12", home)
    assert environment.judge(library) == abi.Finding("sgl_kernel/a.so")


def test_the_drivers_library_is_not_the_environments_business(environment: Environment, tmp_path: Path) -> None:
    environment.add_torch("int")
    elsewhere = tmp_path / "elsewhere"
    exported = 'extern "C" __attribute__((visibility("default"))) void cuTensorMapEncodeTiled() {}\n'
    compiled(elsewhere, "libcuda.so.1", exported)
    source = 'extern "C" void cuTensorMapEncodeTiled();\nextern "C" void go() { cuTensorMapEncodeTiled(); }\n'
    library = compiled(environment.packages / "sgl_kernel", "a.so", source, str(elsewhere / "libcuda.so.1"))
    assert environment.judge(library) == abi.Finding("sgl_kernel/a.so")


def test_a_library_is_found_through_its_own_search_path(environment: Environment, tmp_path: Path) -> None:
    environment.add_torch("int")
    beside = environment.packages / "sgl_kernel.libs"
    compiled(beside, "libhelp.so", 'extern "C" __attribute__((visibility("default"))) void help() {}\n')
    source = 'extern "C" void help();\nextern "C" void go() { help(); }\n'
    flags = [str(beside / "libhelp.so"), "-Wl,-rpath,$ORIGIN/../sgl_kernel.libs"]
    library = compiled(environment.packages / "sgl_kernel", "a.so", source, *flags)
    assert environment.judge(library) == abi.Finding("sgl_kernel/a.so")
    shutil.rmtree(beside)
    assert environment.judge(library).missing == ["libhelp.so"]


def test_only_libraries_that_use_torch_are_judged_in_other_packages(environment: Environment) -> None:
    environment.add_torch("int")
    uses = environment.add_kernel("int")
    alone = compiled(environment.packages / "numpy", "core.so", "void nothing() {}\n")
    (environment.packages / "numpy" / "readme.so").write_text("no library")
    assert [abi.for_torch(str(path), "2.14.1") for path in (uses, alone)] == [True, False]
    assert abi.extensions(str(environment.packages), ["numpy"]) == [str(alone)]


def test_a_package_with_a_library_for_each_torch_is_judged_by_the_one_that_it_loads(environment: Environment) -> None:
    environment.add_torch("int")
    against = ["-L", str(environment.torch), "-lc10_cuda", "-Wl,--no-as-needed,--unresolved-symbols=ignore-all"]
    folder = environment.packages / "torch_c_dlpack_ext"
    one, other = (
        compiled(folder, f"libaddon_torch{number}-cuda.so", KERNEL % "int", *against) for number in ("29", "214")
    )
    assert [abi.for_torch(str(one), version) for version in ("2.9.1+cu130", "2.14.1")] == [True, False]
    assert [abi.for_torch(str(other), version) for version in ("2.9.1+cu130", "2.14.1")] == [False, True]


def test_tables_agree_with_the_compilers_own_reader(tmp_path: Path) -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("needs readelf")
    import _ctypes

    path = _ctypes.__file__
    library = elf.read(path)
    said = subprocess.run([readelf, "-dW", path], capture_output=True, text=True, check=True).stdout
    assert library.needed == [line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line]
    said = subprocess.run([readelf, "--dyn-syms", "-W", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines() if line.strip()[:1].isdigit()]
    names = [(row[4], row[6], row[7].partition("@")[0]) for row in rows if len(row) > 7]
    assert library.undefined == {name for bind, index, name in names if index == "UND" and bind != "WEAK"}
    assert library.defined == {name for bind, index, name in names if index != "UND"}


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\xff" * 100, b"INPUT(libc.so.6)", b"\0" * 4096]
)
def test_what_is_no_library_is_refused_and_never_believed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    with pytest.raises(elf.NotElf):
        elf.read(str(path))


def test_a_library_cut_at_any_place_is_refused_or_read(tmp_path: Path) -> None:
    whole = compiled(tmp_path, "whole.so", TORCH % "int").read_bytes()
    path = tmp_path / "cut.so"
    for size in range(0, len(whole), 997):
        path.write_bytes(whole[:size])
        with pytest.raises(elf.NotElf):
            elf.read(str(path))


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb", "c10::cuda::c10_cuda_check_implementation"),
        ("_ZNK2at10TensorBase8data_ptrIfEEPT_v", "at::TensorBase::data_ptr"),
        ("_Z6launchiPf", "launch"),
        ("aoti_torch_empty_strided", "aoti_torch_empty_strided"),
        ("_ZTIN3c105ErrorE", "_ZTIN3c105ErrorE"),
    ],
)
def test_names_are_shown_as_people_write_them(symbol: str, name: str) -> None:
    assert elf.demangle(symbol) == name
