"""The host and the unit's environment: what launches die of although the models are right."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.inferops.sglang.plugins.module_utils.errors import InferopsError
from ansible_collections.inferops.sglang.plugins.module_utils.gpu import facts as gpu_facts
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import (
    gather,
    probe,
    probe_worker,
    proxies,
    sources_worker,
)
from ansible_collections.inferops.sglang.plugins.module_utils.preflight import run as preflight
from ansible_collections.inferops.sglang.plugins.module_utils.preflight.facts import Facts
from ansible_collections.inferops.sglang.plugins.module_utils.running import Completed
from preflight_samples import GIB, gpus, instance, named, quiet_host, results
from support import run

MIB = 1 << 20
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "nvidia"


def on_gpu(llama_folder: Path, host: dict[str, Any] | None = None, **given: Any) -> Facts:
    """An instance with two ranks on CUDA 13.0, on a host with ``host``'s changes; nothing else is wrong."""
    args = {"tp_size": 2, "disable_custom_all_reduce": True, **given.pop("args", {})}
    described = instance(**{"name": "it", "model_path": str(llama_folder), "args": args, **given})
    found = gather.described(described, None)
    found.cuda = "13.0"
    found.variables = {"CUDA_HOME": "/usr/local/cuda-13.0", "PATH": "/usr/bin", **found.variables}
    found.host = quiet_host(found, **(host or {}))
    return found


def wrong(llama_folder: Path, host: dict[str, Any] | None = None, **given: Any) -> dict[str, dict[str, Any]]:
    return named(on_gpu(llama_folder, host, **given))


def test_a_quiet_host_raises_no_alarm(llama_folder: Path) -> None:
    assert wrong(llama_folder) == {}


def test_a10_small_shared_memory(llama_folder: Path) -> None:
    assert wrong(llama_folder, {"shm": 64 * MIB})["dev_shm"]["severity"] == "error"
    assert wrong(llama_folder, {"shm": 256 * MIB})["dev_shm"]["severity"] == "warning"
    assert wrong(llama_folder, {"shm": 64 * MIB}, args={"tp_size": 1}) == {}
    assert "dev_shm" in wrong(llama_folder, {"shm": 64 * MIB}, args={"tp_size": 1, "dp_size": 4})


@pytest.mark.parametrize(
    ("environment", "host", "name"),
    [
        ({"http_proxy": "http://p:3128"}, "127.0.0.1", "http_proxy"),
        ({"HTTP_PROXY": "http://p:3128", "NO_PROXY": "localhost"}, "127.0.0.1", "HTTP_PROXY"),
        ({"all_proxy": "socks5://p"}, "0.0.0.0", "all_proxy"),
        ({"http_proxy": "http://p", "no_proxy": "127.0.0.1"}, "0.0.0.0", "http_proxy"),
        ({"http_proxy": "http://p", "no_proxy": "127.0.0.1,0.0.0.0"}, "0.0.0.0", None),
        ({"http_proxy": "http://p", "no_proxy": "127.0.0.1"}, "127.0.0.1", None),
        ({"http_proxy": "http://p", "no_proxy": "10.0.0.0/8"}, "10.1.2.3", None),
        ({"http_proxy": "http://p", "no_proxy": "*"}, "0.0.0.0", None),
        ({"http_proxy": "http://p", "no_proxy": ".example.net"}, "gpu01.example.net", None),
        ({"https_proxy": "http://p"}, "0.0.0.0", None),
        ({}, "0.0.0.0", None),
    ],
)
def test_a11_proxies(environment: dict[str, str], host: str, name: str | None) -> None:
    found = proxies.used(environment, host)
    assert (found[0] if found else None) == name


def test_a11_a_proxy_in_the_unit_is_an_error_and_its_password_is_not_shown(llama_folder: Path) -> None:
    found = wrong(llama_folder, env={"http_proxy": "http://user:hunter2@proxy:3128"})["proxy"]
    assert "proxy:3128" in found["message"] and "hunter2" not in json.dumps(found)


def test_a11_a_proxy_that_systemd_gives_to_every_unit(llama_folder: Path) -> None:
    found = on_gpu(llama_folder)
    limits = {"memlock": -1, "nofile": 1048576}
    nothing: dict[str, Any] = {
        "imports": {},
        "folders": {},
        "files": {},
        "devices": {},
        "compile": "",
        "assembler": None,
    }
    found.probe = {**nothing, "limits": limits}
    found.probe["proxies"] = {"http_proxy": "http://proxy:3128"}
    assert set(named(found)) == {"proxy"}
    found.variables = {**found.variables, "NO_PROXY": "127.0.0.1"}
    assert named(found) == {}


def test_b5_caches_on_a_remote_file_system(llama_folder: Path) -> None:
    folders = {"/var/lib/sglang/it": {"type": "nfs4", "writable": True}}
    assert "Stale file handle" in wrong(llama_folder, {"folders": folders})["cache_folders"]["message"]


def test_d6_caches_in_memory_are_a_warning(llama_folder: Path) -> None:
    folders = {"/var/lib/sglang/it": {"type": "tmpfs", "writable": True}}
    assert wrong(llama_folder, {"folders": folders})["cache_folders"]["severity"] == "warning"


def test_a_cache_that_the_unit_cannot_write(llama_folder: Path) -> None:
    described = {"env": {"TRITON_CACHE_DIR": "/srv/cache"}}
    folders = {"/srv/cache": {"type": "ext4", "writable": False}}
    assert "writable_paths" in wrong(llama_folder, {"folders": folders}, **described)["cache_folders"]["message"]
    folder = gather.folder("/srv/cache", instance(name="it", model_path="/x"))
    assert not folder["writable"]
    own = instance(name="it", model_path="/x", writable_paths=["/srv/cache"], run_as="root")
    assert gather.folder("/srv/cache", own)["writable"]


def test_file_systems_are_told_by_the_longest_mount_point(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nserver:/x /data nfs4 rw 0 0\ntmpfs /data/fast\\040one tmpfs rw 0 0\n")
    assert gather.file_system("/data/cache", str(mounts)) == "nfs4"
    assert gather.file_system("/data/fast one/x", str(mounts)) == "tmpfs"
    assert gather.file_system("/database", str(mounts)) == "ext4"


def test_c5_orphan_on_a_gpu(llama_folder: Path) -> None:
    held = gpus(2, "12.0", 96 * GIB)
    held["gpus"][1]["processes"] = [
        {"pid": 77, "user": "root", "unit": None, "cmd": "sglang::scheduler_TP1", "orphan": True, "memory_used": 1}
    ]
    found = wrong(llama_folder, {"gpus": held})["gpus_free"]
    assert "GPU 1 is held by pid 77" in found["message"] and "orphan" in found["message"]
    held["gpus"][1]["processes"][0]["unit"] = "sglang-it.service"
    assert wrong(llama_folder, {"gpus": held}) == {}


def test_c5_a_card_held_in_another_namespace(llama_folder: Path) -> None:
    held = gpus(2, "12.0", 96 * GIB)
    held["gpus"][0]["held_elsewhere"] = [{"pid": 12, "name": None, "type": "C", "memory_used": 5}]
    assert "outside this container" in wrong(llama_folder, {"gpus": held})["gpus_free"]["message"]
    assert wrong(llama_folder, {"gpus": held}, gpus=["1", "GPU-00000001"]).keys() == {"gpu_count"}


@pytest.mark.parametrize(("named_gpus", "args"), [(["all"], {"tp_size": 4}), (["0"], {}), (["0", "7"], {})])
def test_gpus_that_are_not_there(llama_folder: Path, named_gpus: list[str], args: dict[str, Any]) -> None:
    two = gpus(2, "12.0", 96 * GIB)
    assert "gpu_count" in wrong(llama_folder, {"gpus": two}, gpus=named_gpus, args=args)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"base_gpu_id": 1}, "counting from base_gpu_id 1 in steps of 1 there are 1 of the 2"),
        ({"gpu_id_step": 2}, "in steps of 2 there are 1 of the 2"),
        ({"base_gpu_id": 1, "tp_size": 1}, None),
    ],
)
def test_gpus_are_counted_from_where_the_first_rank_lies(
    llama_folder: Path, args: dict[str, Any], words: str | None
) -> None:
    found = wrong(llama_folder, {"gpus": gpus(2, "12.0", 96 * GIB)}, args=args)
    assert (words in found["gpu_count"]["message"]) if words else found == {}


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ({}, {}, [0, 1]),
        ({"gpus": ["0", "1"]}, {"gpus": ["GPU-00000001", "2"]}, [1]),
        ({"gpus": ["0", "1"]}, {"gpus": ["2", "3"]}, None),
        ({}, {"args": {"base_gpu_id": 2}}, None),
        ({}, {"args": {"base_gpu_id": 1}}, [1]),
        ({}, {"gpus": ["none"], "args": {"device": "cpu"}}, None),
        ({"args": {"mem_fraction_static": 0.4}}, {"args": {"mem_fraction_static": 0.5}}, None),
        ({"args": {"mem_fraction_static": 0.4}}, {"args": {"mem_fraction_static": 0.7}}, [0, 1]),
        ({"args": {"mem_fraction_static": 0.4}}, {}, [0, 1]),
    ],
)
def test_two_instances_on_the_same_gpus(
    llama_folder: Path, one: dict[str, Any], other: dict[str, Any], shared: list[int] | None
) -> None:
    mine, theirs = on_gpu(llama_folder, **one), on_gpu(llama_folder, name="other", **other)
    mine.others = [theirs]
    found = named(mine).get("gpus_shared")
    assert (found["evidence"]["gpus"] if found else None) == shared


def test_a_server_that_is_described_on_the_same_card_does_not_hold_it_against_another(llama_folder: Path) -> None:
    held = gpus(2, "12.0", 96 * GIB)
    held["gpus"][1]["processes"] = [
        {"pid": 7, "user": "sglang", "unit": "sglang-b.service", "cmd": "x", "orphan": False, "memory_used": 1}
    ]
    mine = on_gpu(llama_folder, {"gpus": held}, args={"mem_fraction_static": 0.5})
    shares = on_gpu(llama_folder, {"gpus": held}, name="b", args={"mem_fraction_static": 0.4})
    elsewhere = on_gpu(llama_folder, {"gpus": held}, name="b", gpus=["0"], args={"tp_size": 1})
    mine.others = [shares]
    assert named(mine) == {}
    mine.others = [elsewhere]
    assert "gpus_free" in named(mine)


def test_the_instances_of_one_host_are_looked_at_together(llama_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "gpus_of_host", lambda *dummy: gpus(2, "12.0", 96 * GIB))
    both = [instance(name=name, port=port, model_path=str(llama_folder)) for name, port in (("a", 39081), ("b", 39082))]
    with pytest.raises(InferopsError) as raised:
        preflight.preflight(both, run, inside_unit=False, adopting=False)
    shared = [check for check in raised.value.result["checks"] if check["name"] == "gpus_shared"]
    assert [(check["instance"], check["evidence"]["other"]) for check in shared] == [("a", "b"), ("b", "a")]


@pytest.mark.parametrize(
    ("host", "given", "words"),
    [
        ({"bind_problem": "Cannot assign requested address"}, {}, "nobody can listen at host '127.0.0.1'"),
        ({}, {"port": 80}, "port 80 is below 1024"),
        ({"first_port": 0}, {"port": 80}, None),
        ({}, {"port": 80, "mode": "in_place", "python": sys.executable, "run_as": "root"}, None),
        ({}, {"port": 80, "mode": "in_place", "python": sys.executable}, "port 80"),
        ({}, {"port": 1024}, None),
    ],
)
def test_where_the_unit_can_listen(
    llama_folder: Path, host: dict[str, Any], given: dict[str, Any], words: str | None
) -> None:
    found = wrong(llama_folder, host, **given).get("bind")
    assert (words in found["message"] if found else False) if words else found is None


@pytest.mark.parametrize(
    ("address", "fits"), [("127.0.0.1", True), ("0.0.0.0", True), ("localhost", True), ("198.51.100.1", False)]
)
def test_an_address_is_of_this_host(address: str, fits: bool) -> None:
    assert (gather._bind_problem(address) == "") is fits


@pytest.mark.parametrize(("driver", "alarm"), [("550.90.07", True), ("575.57.08", True), ("580.95.05", False)])
def test_f11_driver_for_cuda_13(llama_folder: Path, driver: str, alarm: bool) -> None:
    found = wrong(llama_folder, {"gpus": {**gpus(2, "12.0", 96 * GIB), "driver_version": driver}})
    assert ("driver_cuda" in found) is alarm


def test_f14_f16_problems_of_the_driver_are_findings(llama_folder: Path) -> None:
    broken = gpus(2, "12.0", 96 * GIB)
    broken["problems"] = [
        {
            "name": "driver_library_mismatch",
            "severity": "error",
            "message": "570 and 580",
            "evidence": {"kernel": "570"},
        },
        {"name": "pcie_narrow", "severity": "warning", "message": "x8 of x16", "evidence": {}},
        {"name": "acs_redirect", "severity": "info", "message": "ACS", "evidence": {}},
    ]
    from ansible_collections.inferops.sglang.plugins.module_utils.preflight import check
    from ansible_collections.inferops.sglang.plugins.module_utils.preflight import run as preflight_run

    found = check.run(preflight_run.TABLE, on_gpu(llama_folder, {"gpus": broken}), ())
    health = [entry for entry in found if entry["name"] == "gpu_health"]
    assert [(entry["severity"], entry["ok"]) for entry in health] == [("error", False), ("warning", False)]


@pytest.mark.parametrize(
    ("home", "alarm"), [("", True), ("/", True), ("relative", True), ("/var/lib/sglang/it", False)]
)
def test_f10_home(llama_folder: Path, home: str, alarm: bool) -> None:
    assert ("home" in wrong(llama_folder, env={"HOME": home})) is alarm


def test_f8_f15_programs_that_the_units_path_does_not_find(llama_folder: Path) -> None:
    programs = {"nvcc": None, "ninja": None, "g++": "/usr/bin/g++"}
    assert wrong(llama_folder, {"programs": programs})["compilers"]["evidence"]["missing"] == ["ninja", "nvcc"]


@pytest.mark.parametrize("known", [None, {"folder": False, "nvcc": False}, {"folder": True, "nvcc": False}])
def test_f9_cuda_home_that_is_no_toolkit(llama_folder: Path, known: dict[str, bool] | None) -> None:
    found = wrong(llama_folder, {"cuda_home": known}, env={"CUDA_HOME": ":/usr/local/cuda-12.8"})
    assert ":/usr/local/cuda-12.8" in found["cuda_home"]["message"]


def test_c6_core_dumps_with_data_parallelism(llama_folder: Path) -> None:
    assert "core_dumps" in wrong(llama_folder, core_dumps=True, args={"dp_size": 2})
    assert "core_dumps" not in wrong(llama_folder, core_dumps=True)


def test_a_port_held_by_somebody_is_named_with_its_owner(llama_folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        described = on_gpu(llama_folder, port=taken.getsockname()[1])
        described.host = gather.host(described, gpus(8, "12.0", 96 * GIB))
        found = named(described)["port"]
    assert found["evidence"]["pid"] == os.getpid()
    own = [{"pid": 1, "user": "sglang", "unit": "sglang-it.service", "cmd": "python"}]
    assert results(on_gpu(llama_folder, {"port_owners": own}))["port"]["ok"]


def test_a_server_started_by_hand_gives_way_where_it_is_to_be_taken_over(llama_folder: Path) -> None:
    held = gpus(2, "12.0", 96 * GIB)
    held["gpus"][0]["processes"] = [
        {"pid": 78, "user": "root", "unit": None, "cmd": "sglang::scheduler", "orphan": False, "memory_used": 1}
    ]
    owners = [{"pid": 77, "user": "root", "unit": None, "cmd": "python -m sglang.launch_server"}]
    host: dict[str, Any] = {"gpus": held, "port_owners": owners}
    assert set(wrong(llama_folder, host)) == {"gpus_free", "port"}
    found = results(on_gpu(llama_folder, {**host, "giving_way": {77, 78}}))
    assert found["port"]["ok"] and "gives way" in found["port"]["message"] and found["gpus_free"]["ok"]


def test_f2_f7_packages_that_do_not_go_together(llama_folder: Path, tmp_path: Path) -> None:
    for name in (
        "nvidia_nccl_cu13-2.27.5",
        "torch-2.11.0+cu130",
        "flashinfer_python-0.6.13",
        "flashinfer_cubin-0.6.12",
        "flashinfer_jit_cache-0.6.13+cu129",
    ):
        (tmp_path / f"{name}.dist-info").mkdir()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("cuda: Optional[str] = '13.0'\nhip = None\n")
    seen = sources_worker.installed(str(tmp_path))
    assert seen["torch_cuda"] == "13.0" and set(seen["cuda_packages"]) == {"12", "13"}
    found = on_gpu(llama_folder)
    found.sources = {"root": "/x", "models": False, **seen}
    assert {"cuda_majors", "flashinfer_packages"} <= set(named(found))
    assert "flashinfer-jit-cache" in named(found)["cuda_majors"]["message"]


def test_f2_packages_for_both_majors_on_purpose_are_no_mix(llama_folder: Path, tmp_path: Path) -> None:
    """As in the newest shipped lock; without the package that chooses, the same two are a mix."""
    parts = [f"nvidia-cutlass-dsl-libs-cu{major}" for major in (12, 13)]
    for name in ("torch-2.13.0+cu130", *(f"{part.replace('-', '_')}-4.8.0" for part in parts)):
        (tmp_path / f"{name}.dist-info").mkdir()
        stem, dummy, version = name.partition("-")
        (tmp_path / f"{name}.dist-info" / "METADATA").write_text(f"Name: {stem}\nVersion: {version}\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "version.py").write_text("cuda = '13.0'\n")
    assert set(sources_worker.installed(str(tmp_path))["cuda_packages"]) == {"12", "13"}
    chooser = tmp_path / "nvidia_cutlass_dsl-4.8.0.dist-info"
    chooser.mkdir()
    asked = f"Requires-Dist: {parts[0]}==4.8.0\nRequires-Dist: {parts[1]}==4.8.0; extra=='cu13'\n"
    (chooser / "METADATA").write_text(f"Name: nvidia-cutlass-dsl\nVersion: 4.8.0\n{asked}")
    seen = sources_worker.installed(str(tmp_path))
    assert set(seen["cuda_packages"]) == {"13"}
    found = on_gpu(llama_folder)
    found.sources = {"root": "/x", "models": False, **seen}
    assert "cuda_majors" not in named(found) or named(found)["cuda_majors"]["ok"]


def test_an_environment_in_place_that_cannot_import_sglang_is_an_error(llama_folder: Path, tmp_path: Path) -> None:
    described = instance(
        name="it", model_path=str(llama_folder), mode="in_place", python=sys.executable, gpus=["none"], build=None
    )
    described["env"] = {"PYTHONPATH": str(tmp_path)}
    found = gather.gather(described, run, gpus(0, "", 0), adopting=False)
    said = named(found)["options"]
    assert said["severity"] == "error" and "sglang" in said["message"]


def test_a_host_without_gpus_is_asked_nothing_about_them(llama_folder: Path) -> None:
    assert gather.gpus_of_host([instance(model_path="/x", gpus=["none"])], run)["gpus"] == []
    found = named(on_gpu(llama_folder, {"gpus": gpus(0, "0.0", 0)}, gpus=["none"]))
    assert found == {}


def test_recorded_nvidia_smi_output_is_understood(llama_folder: Path) -> None:
    """One H200, as recorded; the process that holds it is of another namespace here."""

    def answer(argv: list[str], **dummy: Any) -> Completed:
        recorded = {"-q": "nvidia-smi-q-busy.xml", "topo": "topo.txt"}
        if argv[0] == "nvidia-smi" and argv[1] in recorded:
            return Completed(0, (FIXTURES / recorded[argv[1]]).read_text(), "")
        if argv[0] == "nvidia-smi":
            uuid = gpu_facts.smi.parse_query((FIXTURES / "nvidia-smi-q-busy.xml").read_text())["gpus"][0]["uuid"]
            return Completed(0, f"{uuid}, 9.0\n", "")
        return Completed(127, "", "no such program")

    observed = gpu_facts.facts(answer)  # type: ignore[arg-type]
    found = named(on_gpu(llama_folder, {"gpus": observed}, args={"tp_size": 1}))
    assert "held from outside this container" in found["gpus_free"]["message"]
    described = on_gpu(llama_folder, {"gpus": observed})
    assert described.capability == "9.0"
    assert "gpu_count" in named(described)


# From inside the unit


def test_the_look_uses_the_units_own_settings_and_no_secret(llama_folder: Path) -> None:
    described = on_gpu(llama_folder, secret_env={"HF_TOKEN": "hunter2"}, api_key="hunter3", env={"A": "b c"})
    argv = probe.command(described)
    assert argv[0] == "systemd-run" and argv[-1] == "--"
    assert "--property=User=sglang" in argv and "--property=LimitMEMLOCK=infinity" in argv
    assert "--property=ProtectSystem=strict" in argv and "--setenv=A=b c" in argv
    assert not any(word in " ".join(argv) for word in ("hunter", "StateDirectory", "EnvironmentFile"))


def test_drop_ins_of_the_unit_count_inside_it(tmp_path: Path) -> None:
    folder = tmp_path / "sglang-it.service.d"
    assert probe.drop_ins(str(folder)) == []
    folder.mkdir()
    (folder / "20-more.conf").write_text("[Service]\nLimitMEMLOCK=8M\nExecStartPre=/bin/false\nRestart=no\n")
    (folder / "10-first.conf").write_text(
        "[Unit]\nLimitNOFILE=1\n[Service]\n# LimitCORE=1\nEnvironment=http_proxy=http://p\n"
    )
    (folder / "30-off.conf.bak").write_text("[Service]\nLimitNOFILE=2\n")
    assert probe.drop_ins(str(folder)) == ["Environment=http_proxy=http://p", "LimitMEMLOCK=8M"]


def test_the_worker_tells_what_it_can_import_write_open_and_compile(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broken = tmp_path / "broken.py"
    broken.write_text("raise ImportError('undefined symbol: _ZN3c10')")
    compiler = tmp_path / "nvcc"
    compiler.write_text("#!/bin/sh\necho note >&2\necho 'fatal error: cuda_fp8.h: No such file' >&2\nexit 1\n")
    compiler.chmod(0o755)
    payload = {
        "imports": ["json", "not_installed_anywhere"],
        "folders": [str(tmp_path), str(tmp_path / "file")],
        "files": [str(tmp_path), str(compiler), str(tmp_path / "none")],
        "devices": ["/dev/null", str(tmp_path / "none")],
        "nvcc": str(compiler),
        "capability": "12.0",
    }
    found = probe_worker.probe(payload)
    assert found["imports"] == {"json": "", "not_installed_anywhere": None}
    assert found["folders"][str(tmp_path)] == "" and found["folders"][str(tmp_path / "file")]
    assert list(found["files"].values()) == ["", "", "No such file or directory"]
    assert found["devices"]["/dev/null"] == "" and "No such file" in found["devices"][str(tmp_path / "none")]
    assert found["compile"] == "fatal error: cuda_fp8.h: No such file"
    done = run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport broken"])
    assert probe_worker._cause(done.stderr) == "ImportError: undefined symbol: _ZN3c10"


def test_f12_the_assembler_is_the_one_that_triton_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Early releases of Triton have one assembler, later ones a second one for cards from Blackwell on."""
    own = tmp_path / "triton" / "backends" / "nvidia" / "bin"
    own.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.delenv(name, raising=False)

    def assembler(name: str, *known: str) -> Path:
        path = own / name
        path.write_text(
            f"#!/bin/sh\ncase $2 in {'|'.join(known)}) exit 0;; esac\n"
            "echo \"ptxas fatal   : Value '$2' is not defined for option 'gpu-name'\" >&2\nexit 255\n"
        )
        path.chmod(0o755)
        return path

    early = assembler("ptxas", "sm_89", "sm_90a", "sm_120a")
    for capability, known in (("8.9", True), ("9.0", True), ("12.0", True), ("12.1", False)):
        told = probe_worker._assemble(capability)
        assert told is not None and told["path"] == str(early) and (told["error"] == "") is known
    told = probe_worker._assemble("12.1")
    assert told is not None and "'sm_121a' is not defined" in told["error"]
    assert told["variable"] == "TRITON_PTXAS_PATH"
    later = assembler("ptxas-blackwell", "sm_121a")
    told = probe_worker._assemble("12.1")
    assert told == {"path": str(later), "variable": "TRITON_PTXAS_BLACKWELL_PATH", "error": ""}
    other = assembler("mine", "sm_130a")
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", str(other))
    told = probe_worker._assemble("13.0")
    assert told is not None and told["path"] == str(other) and told["error"] == ""


def test_a_library_that_kills_its_process_does_not_take_the_report_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashes.py").write_text("import os\nos.kill(os.getpid(), 11)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    nothing: dict[str, Any] = {"folders": [], "files": [], "devices": [], "nvcc": None, "capability": None}
    found = probe_worker.probe({"imports": ["crashes"], **nothing})
    assert found["imports"]["crashes"] == "ended with status -11"


@pytest.mark.parametrize(
    ("limits", "alarm"),
    [
        ({"memlock": -1, "nofile": 1048576}, False),
        ({"memlock": 8 * MIB, "nofile": 1048576}, True),
        ({"memlock": 65536, "nofile": 1024}, True),
        ({"memlock": 64 * GIB, "nofile": 65536}, False),
    ],
)
def test_f13_limits_inside_the_unit(llama_folder: Path, limits: dict[str, int], alarm: bool) -> None:
    found = on_gpu(llama_folder)
    found.probe = {"imports": {"torch": ""}, "folders": {}, "files": {}, "devices": {}, "limits": limits}
    found.probe.update(compile="", assembler=None)
    assert ("unit_limits" in named(found)) is alarm


def test_what_fails_inside_the_unit_is_said(llama_folder: Path) -> None:
    found = on_gpu(llama_folder)
    found.probe = {
        "imports": {"torch": "", "sgl_kernel": "ImportError: libnvrtc.so.12: cannot open shared object file"},
        "folders": {"/var/lib/sglang/it": "Permission denied"},
        "files": {"/root/kimi/config.json": "Permission denied"},
        "devices": {"/dev/nvidia-uvm": "Operation not permitted"},
        "limits": {"memlock": -1, "nofile": 1048576},
        "compile": "fatal error: cuda_fp8.h: No such file or directory",
        "assembler": {"path": "/b/ptxas", "variable": "TRITON_PTXAS_PATH", "error": "Value 'sm_121a' is not defined"},
    }
    said = named(found)
    assert {"unit_imports", "unit_models", "unit_folders", "unit_devices", "unit_compile", "unit_triton"} <= set(said)
    assert "/root/kimi/config.json cannot be read inside the unit" in said["unit_models"]["message"]
    assert "libnvrtc.so.12" in said["unit_imports"]["message"]
    assert "cuda_fp8.h" in said["unit_compile"]["message"]
    assert "sm_121a" in said["unit_triton"]["message"] and "TRITON_PTXAS_PATH" in said["unit_triton"]["message"]


def test_what_the_unit_is_to_read_is_two_files_of_each_model_and_what_options_name(
    llama_folder: Path, tmp_path: Path
) -> None:
    template = tmp_path / "chat.jinja"
    template.touch()
    args = {"chat_template": str(template), "tool_server": "/not/there", "served_model_name": "kimi"}
    files = probe._files(on_gpu(llama_folder, args=args))
    assert files == [str(llama_folder / "config.json"), str(llama_folder / "model.safetensors"), str(template)]


def test_a_look_that_fails_is_an_error_and_one_that_cannot_be_had_is_deferred(llama_folder: Path) -> None:
    found = on_gpu(llama_folder)
    found.probe, found.probe_problem = {}, "the look from inside the unit failed: no"
    assert named(found)["unit_imports"]["severity"] == "error"
    found.probe, found.probe_problem = None, "systemd does not run here"
    assert results(found)["unit_imports"]["deferred"]


@pytest.mark.parametrize(("run_as", "handed"), [("nobody", True), ("root", False)])
def test_a_folder_that_systemd_gives_to_the_units_user_is_not_looked_at(
    llama_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_as: str, handed: bool
) -> None:
    """Seen with a server that had run as another user: its StateDirectory is handed over at the next start."""
    import pwd

    found = on_gpu(llama_folder)
    found.instance["run_as"] = run_as
    monkeypatch.setattr(probe.layout, "STATE", str(tmp_path))
    state = Path(probe.layout.Instance(found.name).state)
    state.mkdir()
    os.chown(state, pwd.getpwnam("root").pw_uid, -1)
    assert probe.handed_over(found, str(state)) is handed
    assert probe.handed_over(found, str(state / ".cache")) is handed
    assert not probe.handed_over(found, str(tmp_path))
