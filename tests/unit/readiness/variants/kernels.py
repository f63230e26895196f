"""CUDA, the driver, kernel packages."""

from __future__ import annotations

from writing import SITE, Log

from . import Wanted, variant


@variant
def no_kernel_image_at_the_first_forward() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    kernel = ("sgl_kernel/elementwise.py", 12, "rmsnorm", "torch.ops.sgl_kernel.rmsnorm.default(out, x)")
    line = log.hit(
        "RuntimeError: RMSNorm failed with error code no kernel image is available for execution on the device",
        kernel,
        rank="TP1",
    )
    return Wanted(log.sigquit(), line, "no_kernel_image", rank="TP1")


@variant
def illegal_memory_access_while_capturing() -> Wanted:
    log = Log("0.5.15", tp=8, spec=True).arguments().dist().weights().weights("LlamaForCausalLMEagle3").pool().pool()
    log.capture(upto=0, ends=False).put("\n")
    line = log.hit(
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
        "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda for more information.\n"
        "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
        rank="TP6",
    )
    log.hit("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", rank="TP2")
    return Wanted(log.sigquit(), line, "illegal_memory_access", rank="TP6", phase="graph_capture")


@variant
def illegal_memory_access_that_cpp_reports_after_ready() -> Wanted:
    log = Log("0.5.9", tp=2).ready().batch()
    line = log.lines
    log.raw(
        "[rank1]:[E1120 10:12:21.841211362 ProcessGroupNCCL.cpp:2057] [PG ID 2 Rank 1] Process group watchdog "
        "thread terminated with exception: CUDA error: an illegal memory access was encountered",
        "Exception raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:44",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "  what():  [PG ID 2 PG GUID 3 Rank 1] Process group watchdog thread terminated with exception: CUDA error: an "
        "illegal memory access was encountered",
        "Fatal Python error: Aborted",
    )
    return Wanted(log, line, "illegal_memory_access", rank="TP1", phase="serving")


@variant
def kernel_abi_in_the_words_of_the_new_package() -> Wanted:
    log = Log("0.5.15")
    log.raw(
        "Skipping import of cpp extensions due to incompatible torch version 2.11.0+cu130 for torchao version 0.9.0"
    )
    first = log.bare(
        "ImportError: \n[sgl_kernel] CRITICAL: Could not load any common_ops library!\n\nAttempted locations:\n"
        "GPU Info:\n- Compute capability: 90\n- Expected variant: SM90 (fast math optimization)\n\n"
        "Error details from previous import attempts:\n"
        f"- ImportError: {SITE}/sgl_kernel/sm90/common_ops.abi3.so: undefined symbol: _ZNK3c106SymInt6sym_neERKS0_\n"
        "- ModuleNotFoundError: No module named 'common_ops'",
    )
    return Wanted(log, first + 9, "kernel_wheel_torch_abi", unit="dead:exit=1", phase="args")


@variant
def kernel_abi_without_the_block() -> Wanted:
    log = Log("0.5.9")
    path = f"{SITE}/flashinfer/data/aot/x.so"
    line = log.bare(f"ImportError: {path}: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE")
    return Wanted(log, line, "kernel_wheel_torch_abi", unit="dead:exit=1")


@variant
def shared_library_of_another_cuda() -> Wanted:
    log = Log("0.5.9")
    line = log.bare("ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory")
    return Wanted(log, line, "shared_library_missing", unit="dead:exit=1")


@variant
def driver_too_old_said_only_by_a_warning() -> Wanted:
    log = Log("0.5.23")
    line = log.lines
    log.raw(
        f"{SITE}/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: The NVIDIA driver on your system is too "
        "old (found version 12020). Please update your GPU driver",
        "  return torch._C._cuda_getDeviceCount() > 0",
    )
    log.bare("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) is available.")
    return Wanted(log, line, "driver_too_old", unit="dead:exit=1", phase="args")


@variant
def driver_too_old_as_an_exception() -> Wanted:
    log = Log("0.5.9").arguments()
    line = log.hit("RuntimeError: The NVIDIA driver on your system is too old (found version 12040). Please update ...")
    return Wanted(log.sigquit(), line, "driver_too_old")


@variant
def no_gpu_at_all() -> Wanted:
    log = Log("0.5.9")
    line = log.bare("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available.")
    return Wanted(log, line, "no_accelerator", unit="dead:exit=1")


@variant
def fabric_manager_is_not_up() -> Wanted:
    log = Log("0.5.15")
    line = log.lines
    log.raw(
        f"{SITE}/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: Unexpected error from "
        "cudaGetDeviceCount(). Error 802: system not yet initialized (Triggered internally at ...)",
        "  return torch._C._cuda_getDeviceCount() > 0",
    )
    log.bare("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available.")
    return Wanted(log, line, "cuda_not_initialized", unit="dead:exit=1")


@variant
def triton_finds_no_driver() -> Wanted:
    log = Log("0.5.7").arguments().dist().weights()
    line = log.hit("RuntimeError: 0 active drivers ([]). There should only be one.")
    return Wanted(log.sigquit(), line, "no_gpu_driver_for_triton", phase="kv_pool")


@variant
def symmetric_memory_does_not_know_the_card() -> Wanted:
    log = Log("0.5.13", tp=8).arguments().all("Init torch distributed begin.")
    where = ("sglang/srt/distributed/device_communicators/torch_symm_mem.py", 88, "__init__", "self.sizes[capability]")
    line = log.hit("KeyError: 12", where, rank="TP7")
    log.hit("KeyError: 12", where, rank="TP0")
    return Wanted(log.sigquit(), line, "symm_mem_capability_missing", rank="TP7", phase="dist_init")


@variant
def another_key_error_is_not_that() -> Wanted:
    log = Log("0.5.13").arguments().dist()
    line = log.hit("KeyError: 12", ("sglang/srt/layers/moe/topk.py", 88, "select", "table[top_k]"))
    return Wanted(log.sigquit(), line, "unknown")


@variant
def what_the_kernel_asserted() -> Wanted:
    """The exception says only that it did."""
    log = Log("0.5.17", tp=2).ready().batch()
    line = log.lines
    log.raw(
        "/pytorch/aten/src/ATen/native/cuda/ScatterGatherKernel.cu:164: operator(): block: [0,0,0], thread: [1,0,0] "
        'Assertion `idx_dim >= 0 && idx_dim < index_size && "index out of bounds"` failed.'
    )
    log.hit("torch.AcceleratorError: CUDA error: device-side assert triggered", rank="TP1")
    return Wanted(log.sigquit(), line, "cuda_error", rank="TP1", phase="serving")


@variant
def more_ranks_than_cards() -> Wanted:
    log = Log("0.5.12", tp=4).arguments().say("Init torch distributed begin.", "TP0")
    line = log.hit(
        "torch.AcceleratorError: CUDA error: invalid device ordinal\n"
        "GPU device may be out of range, do you have enough GPUs?",
        rank="TP2",
    )
    return Wanted(log.sigquit(), line, "no_accelerator", rank="TP2")


@variant
def what_the_driver_saw() -> Wanted:
    """A collector has put the kernel's log into the same."""
    log = Log("0.5.18", tp=2).arguments().dist().weights().pool()
    line = log.lines
    log.raw(
        "Nov 20 10:01:02 gpu07 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=4107, name=sglang::schedul, GPU has fallen "
        "off the bus."
    )
    log.hit("torch.AcceleratorError: CUDA error: unspecified launch failure", rank="TP1")
    return Wanted(log.sigquit(), line, "cuda_error", rank="TP1", phase="kv_pool")


@variant
def only_a_warning_says_what_the_driver_lacks() -> Wanted:
    log = Log("0.5.14")
    line = log.lines
    log.raw(
        "/x/torch/cuda/__init__.py:182: UserWarning: CUDA initialization: CUDA unknown error - this may be due to an "
        "incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start."
    )
    log.bare("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available.")
    return Wanted(log, line, "cuda_not_initialized", unit="dead:exit=1")


@variant
def a_driver_that_is_only_compatible_elsewhere() -> Wanted:
    log = Log("0.5.16")
    line = log.lines
    log.raw(
        "/x/torch/cuda/__init__.py:182: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). "
        "Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? "
        "Error 804: forward compatibility was attempted on non supported HW"
    )
    log.bare("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available.")
    return Wanted(log, line, "driver_too_old", unit="dead:exit=1")
