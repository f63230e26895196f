"""What the host refuses: memory, files, permission, a newer system; and what does not fit its cards."""

from __future__ import annotations

from writing import Log

from . import Wanted, variant

_LOAD = ("sglang/srt/model_loader/loader.py", 655, "load_model", "self.load_weights_and_postprocess(")


def _said(error: str, category: str, release: str = "0.5.23") -> Wanted:
    log = Log(release, tp=2).arguments().dist()
    log.all("Load weight begin. avail mem=137.90 GB")
    line = log.hit(error, _LOAD, rank="TP1")
    return Wanted(log.sigquit(), line, category, rank="TP1", phase="weights")


@variant
def no_memory_for_a_fork() -> Wanted:
    return _said("OSError: [Errno 12] Cannot allocate memory", "host_memory_exhausted")


@variant
def no_memory_for_python() -> Wanted:
    return _said("MemoryError", "host_memory_exhausted", "0.5.9")


@variant
def no_memory_for_a_tensor_on_the_host() -> Wanted:
    error = "RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory: you tried"
    return _said(error + " to allocate 549755813888 bytes. Error code 12", "host_memory_exhausted")


@variant
def no_file_descriptor_left() -> Wanted:
    return _said(
        "OSError: [Errno 24] Too many open files: '/srv/models/m/model-00017.safetensors'", "too_many_open_files"
    )


@variant
def the_server_of_the_files_has_lost_them() -> Wanted:
    return _said("OSError: [Errno 116] Stale file handle", "storage_failed")


@variant
def the_disk_fails() -> Wanted:
    return _said("OSError: [Errno 5] Input/output error: '/srv/models/m/model-00017.safetensors'", "storage_failed")


@variant
def the_user_may_not_read_the_draft() -> Wanted:
    return _said("PermissionError: [Errno 13] Permission denied: '/root/draft/config.json'", "permission_denied")


@variant
def the_user_may_not_write_its_cache() -> Wanted:
    return _said("PermissionError: [Errno 13] Permission denied: '/.cache/flashinfer'", "permission_denied", "0.5.15")


@variant
def a_wheel_for_a_newer_system() -> Wanted:
    error = "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by common_ops.so)"
    return _said(error, "system_library_too_old")


@variant
def heads_that_three_gpus_cannot_share() -> Wanted:
    error = "ValueError: Total number of attention heads (64) must be divisible by tensor parallel size (3)."
    return _said(error, "parallel_size_unfit")


@variant
def a_width_that_three_gpus_cannot_share() -> Wanted:
    return _said("AssertionError: 163840 is not divisible by 3", "parallel_size_unfit", "0.5.9")


@variant
def a_quantization_that_nobody_knows() -> Wanted:
    error = "ValueError: Unknown quantization method: w4afp9. Must be one of ['awq', 'fp8']."
    return _said(error, "quantization_unfit")


@variant
def a_kernel_for_a_larger_card() -> Wanted:
    error = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: "
    return _said(error + "101376. Reducing block sizes or `num_stages` may help.", "kernel_out_of_resources")


@variant
def a_backend_for_another_card() -> Wanted:
    error = "AssertionError: FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use another backend."
    return _said(error, "attention_backend_unfit")


@variant
def a_bus_error() -> Wanted:
    log = Log("0.5.15", tp=2).arguments().dist()
    log.all("Load weight begin. avail mem=137.90 GB")
    line = log.lines
    log.raw("Bus error (core dumped)")
    return Wanted(log.sigquit(), line, "child_crashed")


@variant
def a_prompt_that_speaks_of_death() -> Wanted:
    """Requests are logged, and users send what they like, line breaks included."""
    log = Log("0.5.9", tp=2).ready()
    line = log.lines - 1
    log.say("Receive: obj=GenerateReqInput(text='please explain:").raw("Killed", "')").batch()
    return Wanted(log, line, "none", verdict="ready", unit="active", phase="serving")
