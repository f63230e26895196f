"""Memory, of the card and of the host; and processes that were killed."""

from __future__ import annotations

from writing import Log, frames

from . import Wanted, variant

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {0}. GPU {1} has a total capacity of 79.25 GiB of "
    "which 56.31 MiB is free.{2} Including non-PyTorch memory, this process has 70.74 GiB memory in use. Of the "
    "allocated memory 69.04 GiB is allocated by PyTorch, and 35.60 MiB is reserved by PyTorch but unallocated."
)


@variant
def oom_at_weights_of_one_rank_and_the_others_consequences() -> Wanted:
    log = Log("0.5.9", tp=4).arguments().dist().weights(ends=False, upto=2)
    line = log.hit(OOM.format("896.00 MiB", 3, ""), rank="TP3")
    log.sigquit()
    peers = (
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that didn't finish loading."
    )
    log.hit(peers, rank="TP1")
    return Wanted(log, line, "cuda_oom", rank="TP3", phase="weights")


@variant
def the_consequence_of_another_rank_comes_first() -> Wanted:
    log = Log("0.5.23", tp=2).arguments().dist().weights(ends=False, upto=2)
    log.hit(
        "ValueError: TP rank 0 could finish the model loading, but there are other ranks that didn't finish loading. "
        "It is likely due to unexpected failures (e.g., OOM) or a slow node.",
        rank="TP0",
    )
    log.sigquit()
    line = log.hit(OOM.format("1.96 GiB", 1, ""), rank="TP1")
    return Wanted(log, line, "cuda_oom", rank="TP1")


@variant
def oom_in_capture_wrapped_by_sglang() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights().pool().capture(ends=False, upto=0)
    log.say("Scheduler hit an exception: Traceback (most recent call last):")
    log.raw(
        *frames(("sglang/srt/model_executor/cuda_graph_runner.py", 370, "capture", "self.capture_one_batch_size()"))
    )
    line = log.lines
    log.raw(
        OOM.format("2.00 GiB", 0, ""), "", "During handling of the above exception, another exception occurred:", ""
    )
    log.raw("Traceback (most recent call last):", *frames())
    log.raw(
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "Possible solutions:",
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)",
        "",
    )
    log.sigquit()
    return Wanted(log, line, "cuda_oom", phase="graph_capture")


@variant
def oom_said_only_by_the_wrapper() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights().pool().capture(ends=False, upto=0).put("\n")
    line = log.hit("Exception: Capture cuda graph failed: CUDA error: out of memory\nPossible solutions:\n1. set")
    return Wanted(log.sigquit(), line, "cuda_oom", phase="graph_capture")


@variant
def oom_with_a_foreign_process_named() -> Wanted:
    log = Log("0.5.15", tp=2).arguments().dist().weights(upto=1, ends=False).put("\n")
    text = OOM.format("1.00 GiB", 1, " Process 77 has 40.10 GiB memory in use.")
    line = log.hit(text, rank="TP1")
    return Wanted(log.sigquit(), line, "cuda_oom_foreign_process", rank="TP1")


@variant
def a_small_foreign_process_is_not_to_blame() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights().pool()
    line = log.hit(OOM.format("70.00 MiB", 0, " Process 913 has 412.00 MiB memory in use."))
    return Wanted(log.sigquit(), line, "cuda_oom")


@variant
def oom_on_a_rank_that_began_with_less_than_its_peers() -> Wanted:
    log = Log("0.5.9", tp=4).arguments().dist()
    for rank in log.ranks:
        log.say(f"Load weight begin. avail mem={'21.40' if rank == 'TP1' else '78.20'} GB", rank)
    line = log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.", rank="TP1")
    return Wanted(log.sigquit(), line, "cuda_oom_foreign_process", rank="TP1")


@variant
def kv_budget_0523_names_the_minimum() -> Wanted:
    log = Log("0.5.23", tp=2).arguments().dist().weights()
    line = log.hit(
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.3. "
        "Raise --mem-fraction-static above 0.412 or use more GPUs.",
        rank="TP0",
    )
    log.hit(
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.3. "
        "Raise --mem-fraction-static above 0.412 or use more GPUs.",
        rank="TP1",
    )
    return Wanted(log.sigquit(), line, "kv_budget_too_small", rank="TP0", phase="kv_pool")


@variant
def kv_budget_of_the_target() -> Wanted:
    log = Log("0.5.13").arguments().dist().weights()
    line = log.hit("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: 0.2")
    return Wanted(log.sigquit(), line, "kv_budget_too_small", phase="kv_pool")


@variant
def dev_shm_full_is_the_last_line_of_nccls_message() -> Wanted:
    log = Log("0.5.9", tp=8).arguments().all("Init torch distributed begin.")
    first = log.hit(
        "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
        "unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.7\n"
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \n"
        "Last error:\n"
        "Error while creating shared memory segment /dev/shm/nccl-kZr2xM (size 33030528), error: No space left on "
        "device (28)",
        rank="TP4",
    )
    return Wanted(log.sigquit(), first + 3, "dev_shm_full", rank="TP4", phase="dist_init")


@variant
def disk_full_while_compiling() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights().pool()
    line = log.hit("OSError: [Errno 28] No space left on device: '/var/lib/sglang/kimi/.triton/cache/x.tmp'")
    return Wanted(log.sigquit(), line, "disk_full")


@variant
def scheduler_is_dead_in_the_words_of_059() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights(upto=2, ends=False).put("\n")
    log.say("Rank 0 scheduler is dead. Please check if there are relevant logs.")
    line = log.lines
    log.say("Exit code: -9")
    log.bare("EOFError", ("sglang/srt/entrypoints/engine.py", 893, "_launch", "data = reader.recv()"))
    return Wanted(log, line, "child_sigkill_host_oom", unit="dead:exit=1", rank="TP0", phase="weights")


@variant
def scheduler_died_in_the_words_of_0510_and_the_kernel_counted_nothing() -> Wanted:
    log = Log("0.5.10", tp=4).arguments().dist().weights(upto=2, ends=False).put("\n")
    line = log.bare("RuntimeError: Rank 2 scheduler died during initialization (exit code: -9). If exit code is -9 ...")
    more = {"oom_kills": 0}
    return Wanted(log, line, "child_sigkill", unit="dead:exit=1", rank="TP2", phase="weights", more=more)


@variant
def killed_after_ready_and_the_kernel_counted_it() -> Wanted:
    log = Log("0.5.23", tp=2).ready().batch()
    line = log.lines
    log.say("Subprocess scheduler_1 (pid=4184) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
    log.say("SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    return Wanted(log, line, "child_sigkill_host_oom", rank="TP1", phase="serving", more={"oom_kills": 1})


@variant
def segfault_after_ready() -> Wanted:
    log = Log("0.5.15").ready().batch()
    line = log.lines
    log.raw("Fatal Python error: Segmentation fault", "", "Current thread 0x00007f (most recent call first):")
    log.raw('  File "/x/triton.py", line 3 in run')
    log.say("Subprocess scheduler_0 (pid=4184) crashed with exit code -11. Triggering SIGQUIT for cleanup...")
    return Wanted(log, line, "child_crashed", phase="serving")


@variant
def a_signal_without_a_word() -> Wanted:
    log = Log("0.5.15").ready().batch()
    line = log.lines
    log.say("Subprocess detokenizer (pid=4190) crashed with exit code -11. Triggering SIGQUIT for cleanup...")
    return Wanted(log, line, "child_crashed", phase="serving")


@variant
def zombie_service_that_systemd_calls_active() -> Wanted:
    log = Log("0.5.9").ready().batch()
    line = log.later(60).lines
    for dummy in range(3):
        log.later(20).say(
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
            "tic start time: 10:46:24. last_heartbeat time: 10:46:08"
        )
        log.say('INFO:     127.0.0.1:41160 - "GET /health HTTP/1.1" 503 Service Unavailable')
        log.say('INFO:     127.0.0.1:41160 - "GET /v1/models HTTP/1.1" 200 OK')
    return Wanted(log, line, "child_sigkill_zombie_service", unit="active", phase="serving")


@variant
def busy_is_not_dead() -> Wanted:
    log = Log("0.5.10", tp=2).ready()
    line = log.lines - 1
    for dummy in range(3):
        log.later(20).say(
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
            "tic start time: 10:46:24. last_heartbeat time: 10:46:08"
        )
        log.say('INFO:     127.0.0.1:41160 - "GET /health HTTP/1.1" 503 Service Unavailable')
        log.batch("Prefill", 0)
    return Wanted(log, line, "none", "ready", unit="active")


@variant
def oom_kill_of_the_main_process_leaves_no_word() -> Wanted:
    log = Log("0.5.15").arguments().dist()
    line = log.lines
    log.say("Load weight begin. avail mem=137.90 GB")
    return Wanted(log, line, "child_sigkill_host_oom", more={"oom_kills": 1})


@variant
def killed_in_the_words_of_systemd() -> Wanted:
    """Where the log was collected together with the journal."""
    log = Log("0.5.9", tp=2).arguments().dist().weights(upto=1, ends=False).put("\n")
    line = log.lines
    head = "Nov 20 10:01:43 gpu-01 systemd[1]: sglang-kimi.service: "
    log.raw(
        head + "A process of this unit has been killed by the OOM killer.",
        head + "Main process exited, code=killed, status=9/KILL",
        head + "Failed with result 'oom-kill'.",
    )
    return Wanted(log, line, "child_sigkill_host_oom", phase="weights")


@variant
def killed_in_the_words_of_a_shell() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights(upto=1, ends=False).put("\n")
    line = log.lines
    log.raw("/opt/run.sh: line 12:  4121 Killed                  python3 -m sglang.launch_server --model-path /srv/m")
    return Wanted(log, line, "child_sigkill_host_oom", unit="dead:exit=137", phase="weights")


@variant
def zombie_service_that_opens_streams() -> Wanted:
    """The head of a stream, with its 200, is sent before anybody is asked for a token."""
    log = Log("0.5.9", tp=2).ready().batch().later(60)
    line = log.lines
    for dummy in range(5):
        log.later(25).say(
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: "
            "11:00:30. last_heartbeat time: 11:00:01"
        )
        log.say('INFO:     10.0.0.9:51234 - "GET /health HTTP/1.1" 503 Service Unavailable')
        log.say('INFO:     10.0.0.9:51240 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    return Wanted(log, line, "child_sigkill_zombie_service", unit="active", phase="serving")
