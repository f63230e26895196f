"""Kernels that are compiled at run time."""

from __future__ import annotations

from writing import Log, frames

from . import Wanted, variant

JIT = ("flashinfer/jit/core.py", 299, "build_and_load", "self.build(verbose, need_lock=False)")
NINJA = ("flashinfer/jit/cpp_ext.py", 368, "run_ninja", "subprocess.run(")


@variant
def no_nvcc_on_the_path_of_the_unit() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    line = log.hit("RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist", JIT)
    return Wanted(log.sigquit(), line, "flashinfer_jit_no_nvcc", phase="graph_capture")


@variant
def nvcc_not_found_by_the_shell_of_ninja() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    log.say("Scheduler hit an exception: Traceback (most recent call last):").raw(*frames(JIT, NINJA))
    log.raw(
        "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/x']' returned non-zero exit status 1.",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        *frames(JIT, NINJA),
        "RuntimeError: Ninja build failed. Ninja output:",
        "ninja: Entering directory `/var/lib/sglang/m/.cache/flashinfer'",
        "[1/3] /usr/local/cuda-12.8/bin/nvcc --generate-dependencies-with-compile -c a.cu -o a.cuda.o",
        "FAILED: a.cuda.o ",
    )
    line = log.lines
    log.raw("/bin/sh: 1: :/usr/local/cuda-12.8/bin/nvcc: not found", "ninja: build stopped: subcommand failed.", "")
    return Wanted(log.sigquit(), line, "flashinfer_jit_no_nvcc", phase="graph_capture")


@variant
def ninja_is_missing() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    line = log.hit("FileNotFoundError: [Errno 2] No such file or directory: 'ninja'", JIT, NINJA)
    return Wanted(log.sigquit(), line, "jit_ninja_missing")


@variant
def a_header_is_missing() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    log.say("Scheduler hit an exception: Traceback (most recent call last):", "TP0").raw(*frames(JIT, NINJA))
    log.raw(
        "RuntimeError: Ninja build failed. Ninja output:",
        "[1/2] /usr/local/cuda/bin/nvcc -c b.cu -o b.cuda.o",
        "FAILED: b.cuda.o ",
    )
    line = log.lines
    log.raw(
        "/opt/x/include/flashinfer/vec_dtypes.cuh:21:10: fatal error: cuda_fp8.h: No such file or directory",
        "   21 | #include <cuda_fp8.h>",
        "compilation terminated.",
        "ninja: build stopped: subcommand failed.",
        "",
    )
    return Wanted(log.sigquit(), line, "jit_build_failed", rank="TP0")


@variant
def the_compiler_is_killed_for_memory() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    first = log.hit(
        "RuntimeError: Ninja build failed. Ninja output:\n[1/9] nvcc -c b.cu\nFAILED: b.cuda.o \nKilled\n"
        "ninja: build stopped: subcommand failed.",
        JIT,
        NINJA,
    )
    return Wanted(log.sigquit(), first + 3, "jit_build_failed")


@variant
def ptxas_does_not_know_the_card() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights().pool()
    first = log.hit(
        "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
        "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
        ("triton/backends/nvidia/compiler.py", 440, "make_cubin", "subprocess.run(ptxas_cmd)"),
    )
    return Wanted(log.sigquit(), first + 2, "jit_build_failed")


@variant
def a_stale_lock_of_a_build() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights().pool().say("Capture cuda graph begin. avail mem=22.60 GB")
    line = log.lines
    log.raw(f"{log.now},123 - INFO - flashinfer.jit: Loading JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16")
    return Wanted(log, line, "flashinfer_jit_lock", "stalled", unit="active", phase="graph_capture", after=1500)


@variant
def a_build_that_takes_its_time() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights().pool().say("Capture cuda graph begin. avail mem=22.60 GB")
    line = log.lines
    log.raw(f"{log.now},123 - INFO - flashinfer.jit: Loading JIT ops: batch_prefill_with_kv_cache_dtype_q_bf16")
    return Wanted(log, line, "jit_compile", "still_starting", unit="active", after=60)


@variant
def deep_gemm_compiles() -> Wanted:
    log = Log("0.5.23", tp=4).arguments().dist().weights().pool()
    log.say("Capture target decode CUDA graph begin. backend=full, avail mem=22.60 GB", "TP0")
    log.say("Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins)", "TP0")
    log.say("Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=7168, K=2048, num_groups=1 with all Ms.", "TP0")
    line = log.lines
    log.put("\rDeepGEMM warmup:   0%|          | 0/16384 [00:00<05:00, 54.61it/s]")
    log.put("\rDeepGEMM warmup:  99%|█████████▉| 16300/16384 [14:58<00:02, 18.61it/s]")
    return Wanted(
        log, line, "jit_precompile_deepgemm", "still_starting", unit="active", after=900, phase="graph_capture"
    )


def _of_two_ranks(order: str) -> tuple[Log, int]:
    """Two tracebacks of one build, a line of either rank at a time; returns the number of the first compiler's line."""
    log = Log("0.5.11", tp=2).arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    told = [
        "Traceback (most recent call last):",
        *frames(NINJA, base=()),
        "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/x']' returned non-zero exit status 1.",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        *frames(JIT, NINJA),
        "RuntimeError: Ninja build failed. Ninja output:",
        "ninja: Entering directory `/x'",
        "FAILED: [code=127] a.cuda.o",
        "/bin/sh: 1: :/usr/local/cuda-12.8/bin/nvcc: not found",
        "ninja: build stopped: subcommand failed.",
        "",
    ]
    left = {rank: list(told) for rank in "01"}
    first = 0
    for rank in (order * len(told))[: 2 * len(told)]:
        rank = rank if left[rank] else "10"[int(rank)]
        line = left[rank].pop(0)
        if len(left[rank]) == len(told) - 1:
            log.say(f"Scheduler hit an exception: {line}", f"TP{rank}")
            continue
        if not first and "not found" in line:
            first = log.lines
        log.raw(line)
    return log.sigquit(), first


@variant
def two_ranks_tell_of_a_build_line_by_line() -> Wanted:
    log, line = _of_two_ranks("01")
    return Wanted(log, line, "flashinfer_jit_no_nvcc", rank="TP0", phase="graph_capture")


@variant
def two_ranks_tell_of_a_build_and_one_is_ahead() -> Wanted:
    """What one says of its build stands below what the other has said."""
    log, line = _of_two_ranks("1110100")
    return Wanted(log, line, "flashinfer_jit_no_nvcc", rank="TP1", phase="graph_capture")
