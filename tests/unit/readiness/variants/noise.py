"""What looks bad and is not, or looks well and is not."""

from __future__ import annotations

from writing import MAIN_FRAMES, Log, frames

from . import Wanted, variant


@variant
def much_noise_and_a_good_start() -> Wanted:
    log = Log("0.5.18", tp=2, spec=True)
    log.raw("Skipping import of cpp extensions due to incompatible torch version 2.13.0 for torchao version 0.9.0")
    log.arguments(served_model_name="Traceback (most recent call last): RuntimeError: killed [Errno 98]")
    log.all("Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'vllm'")
    log.say("Failed to load generation config for /srv/models/draft: no file named generation_config.json")
    log.raw("[rank0]:[W1120 10:00:29.903330880 ProcessGroupGloo.cpp:727] Warning: Unable to resolve hostname")
    log.say("Using default MoE kernel config. Performance might be sub-optimal!", "TP0")
    log.say("kill_process_tree called: parent_pid=1, include_parent=False, pid=2").loaded().http()
    log.say("post-warmup freeze_gc failed").raw("Traceback (most recent call last):", *frames(base=MAIN_FRAMES))
    log.raw("requests.exceptions.ReadTimeout: HTTPConnectionPool(host='127.0.0.1', port=30000): Read timed out.")
    log.fired_up()
    line = log.lines - 1
    log.raw("ERROR:    Exception in ASGI application", "Traceback (most recent call last):", *frames(base=MAIN_FRAMES))
    log.raw("starlette.requests.ClientDisconnect")
    return Wanted(log, line, "none", "ready", unit="active", phase="serving")


@variant
def colours_and_milliseconds() -> Wanted:
    log = Log("0.5.14").arguments()
    log.raw("[2026-11-20 10:00:21.042 TP0] \x1b[1;33mInit torch distributed begin.\x1b[0m")
    log.raw("[2026-11-20 10:00:22.042 TP0] Init torch distributed ends. elapsed=0.45 s")
    line = log.lines
    log.raw("[2026-11-20 10:00:23.042 TP0] Load weight begin. avail mem=137.66 GB")
    return Wanted(log, line, "loading_weights", "still_starting", unit="active", phase="weights")


@variant
def a_record_that_is_glued_to_a_bar() -> Wanted:
    log = Log("0.5.14", tp=2).arguments().dist().weights().pool().capture(upto=0, ends=False)
    line = log.lines
    log.all("Registering 0 cuda graph addresses")
    return Wanted(
        log,
        line,
        "capture_error_hidden_by_custom_allreduce",
        "stalled",
        rank="TP0",
        unit="active",
        phase="graph_capture",
        after=5,
    )


@variant
def a_capture_that_registers_nothing_and_is_complete() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights().pool().capture(upto=2, ends=False).put("\n")
    line = log.lines + 1
    log.all("Registering 0 cuda graph addresses")
    return Wanted(log, line, "capturing_graphs", "still_starting", unit="active", after=5)


@variant
def weights_that_load_for_an_hour() -> Wanted:
    log = Log("0.5.23", tp=8).arguments().dist().all("Load weight begin. avail mem=177.40 GB")
    line = log.lines
    for done in range(40):
        log.put(f"\rMulti-thread loading shards: {done}% Completed | {done}/99 [{done * 1.5:02.0f}:00<90:00, 90.0s/it]")
    return Wanted(log, line, "loading_weights", "still_starting", unit="active", phase="weights", after=3540)


@variant
def one_rank_stays_behind_in_weights() -> Wanted:
    log = Log("0.5.15", tp=4).arguments().dist().all("Load weight begin. avail mem=177.40 GB")
    line = log.lines - 2
    for rank in ("TP0", "TP1", "TP3"):
        log.say("Load weight end. elapsed=8.31 s, type=LlamaForCausalLM", rank)
    return Wanted(log, line, "stalled", "stalled", unit="active", rank="TP2", phase="weights", after=3600)


UNHEALTHY = (
    "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
    "tic start time: 10:46:24. last_heartbeat time: {0}"
)


@variant
def a_long_prompt_keeps_the_scheduler_busy() -> Wanted:
    log = Log("0.5.10").ready()
    line = log.lines - 1
    log.say("Prefill batch, #new-seq: 1, #new-token: 8192, #running-req: 0, #queue-req: 0, #pending-token: 180224")
    for dummy in range(4):
        log.later(20).say(UNHEALTHY.format("10:46:08"))
    return Wanted(log, line, "none", "ready", unit="active")


@variant
def a_heart_that_beats() -> Wanted:
    log = Log("0.5.15").ready()
    line = log.lines - 1
    for beat in range(4):
        log.later(25).say(UNHEALTHY.format(f"10:46:{10 + beat}"))
    return Wanted(log, line, "none", "ready", unit="active")


@variant
def health_that_came_back() -> Wanted:
    log = Log("0.5.15").ready()
    line = log.lines - 1
    for dummy in range(3):
        log.later(20).say(UNHEALTHY.format("10:46:08"))
    log.say('INFO:     127.0.0.1:41160 - "GET /health HTTP/1.1" 200 OK')
    return Wanted(log, line, "none", "ready", unit="active")


@variant
def a_log_that_journald_has_kept() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights(upto=1, ends=False).put("\n")
    line = log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.", rank="TP1")
    log.sigquit()
    head = "Nov 20 10:00:43 gpu-01 python3[4121]: "
    log.text = "".join(head + text for text in log.text.splitlines(keepends=True))
    return Wanted(log, line, "cuda_oom", rank="TP1", phase="weights")


@variant
def an_exception_that_was_logged_and_survived() -> Wanted:
    """Somebody caught it; the start went on, and ends for memory without a word."""
    log = Log("0.5.9").arguments()
    log.say("Failed to import deep_gemm, falling back: Traceback (most recent call last):")
    log.raw(
        '  File "/x/a.py", line 3, in f', "    import deep_gemm", "ModuleNotFoundError: No module named 'deep_gemm'"
    )
    log.dist()
    line = log.lines
    log.all("Load weight begin. avail mem=137.90 GB")
    return Wanted(log, line, "child_sigkill_host_oom", phase="weights", more={"oom_kills": 1})


@variant
def an_exception_that_was_logged_and_not_survived() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    log.say("Failed to set up the kernels: Traceback (most recent call last):")
    log.raw('  File "/x/a.py", line 3, in f', "    import deep_gemm")
    line = log.lines
    log.raw("ModuleNotFoundError: No module named 'deep_gemm'")
    return Wanted(log, line, "python_module_missing", unit="dead:exit=1", phase="weights")


@variant
def a_last_word_that_nobody_knows() -> Wanted:
    log = Log("0.5.9").arguments()
    line = log.lines
    log.raw("libfoo: fatal: the flux capacitor is not there")
    log.say("kill_process_tree called: parent_pid=1, include_parent=False, pid=2")
    return Wanted(log, line, "unknown", unit="dead:exit=1")


@variant
def a_start_after_one_that_ended_without_a_word() -> Wanted:
    log = Log("0.5.15").ready().batch().later(3600)
    log.arguments().dist()
    line = log.hit("ModuleNotFoundError: No module named 'xgrammar'")
    return Wanted(log.sigquit(), line, "python_module_missing", phase="weights")


@variant
def a_start_that_dies_at_import_after_one_that_failed() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.")
    log.sigquit()
    imports = (("sglang/launch_server.py", 7, "<module>", "from sglang.srt.server_args import prepare_server_args"),)
    line = log.bare("ImportError: /x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda", base=imports)
    return Wanted(log, line, "kernel_wheel_torch_abi", unit="dead:exit=1")


@variant
def a_start_that_dies_at_import_after_a_clean_stop() -> Wanted:
    """Whoever asked for the stop of the earlier one has not asked for this end."""
    log = Log("0.5.15").ready().batch().later(600)
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    log.say("kill_process_tree called: parent_pid=1, include_parent=True, pid=1")
    imports = (
        ("sglang/launch_server.py", 78, "<module>", "run_server(server_args)"),
        ("sglang/launch_server.py", 26, "run_server", "from sglang.srt.entrypoints.http_server import launch_server"),
    )
    line = log.bare("ModuleNotFoundError: No module named 'xgrammar'", base=imports)
    return Wanted(log, line, "python_module_missing", unit="dead:exit=1", phase="import")


@variant
def a_start_with_a_wrong_option_after_one_that_failed() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.")
    log.sigquit().raw("usage: launch_server.py [-h]")
    line = log.lines
    log.raw("launch_server.py: error: unrecognized arguments: --tp-sizes=8")
    return Wanted(log, line, "unknown_option", unit="dead:exit=2")


# -- what users send -------------------------------------------------------------------------------------------------
@variant
def a_prompt_that_holds_a_whole_post_mortem() -> Wanted:
    log = Log("0.5.9").ready()
    log.say("Receive: obj=GenerateReqInput(rid='a', text='dmesg says:")
    log.raw("Segmentation fault (core dumped)", "Fatal Python error: Aborted", "Traceback (most recent call last):")
    log.raw('  File "x.py", line 1, in <module>', "ImportError: /x.so: undefined symbol: _ZN3c10", "', stream=False)")
    line = log.batch().later(9).lines
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    return Wanted(log, line, "stopped_by_request", "stopped")


@variant
def a_traceback_in_a_prompt_and_a_real_one_after_it() -> Wanted:
    log = Log("0.5.14", tp=2).ready()
    log.say("Receive: obj=GenerateReqInput(rid='a', text='Traceback (most recent call last):\\n  boom')")
    log.batch().later(30)
    line = log.hit("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", rank="TP1")
    return Wanted(log.sigquit(), line, "illegal_memory_access", rank="TP1", phase="serving")


@variant
def a_crash_right_after_a_prompt() -> Wanted:
    log = Log("0.5.14", tp=2).ready()
    log.say("Receive: obj=GenerateReqInput(rid='a', text='hello there')")
    line = log.lines
    log.raw("Fatal Python error: Segmentation fault", "")
    return Wanted(log.sigquit(), line, "child_crashed", phase="serving")


# -- what was survived, and what was cut off -------------------------------------------------------------------------
@variant
def a_traceback_below_a_record_that_was_survived() -> Wanted:
    """As Python's logging writes it with ``exc_info``; the start goes on, and is killed without a word."""
    log = Log("0.5.23", tp=2).arguments()
    log.say("cleanup_stale_shm: sweep failed, continuing startup").raw("Traceback (most recent call last):")
    log.raw('  File "/x/sglang/srt/utils/stale_shm_cleanup.py", line 70, in cleanup_stale_shm', "    os.unlink(path)")
    log.raw("PermissionError: [Errno 13] Permission denied: '/dev/shm/sglang_old'").dist()
    log.all("Load weight begin. avail mem=94.00 GB")
    return Wanted(log, log.lines - 1, "child_sigkill", phase="weights")


@variant
def an_exception_of_the_main_program_is_never_survived() -> Wanted:
    """Whoever catches one sees the frames below his own only; ranks may go on a little after the main process's end."""
    log = Log("0.5.23", tp=2).arguments().say("Using default HuggingFace chat template")
    line = log.bare("OSError: [Errno 28] No space left on device: '/tmp/x'")
    log.all("Init parallel begin.")
    return Wanted(log, line, "disk_full", unit="dead:exit=1")


@variant
def a_log_that_ends_within_a_traceback() -> Wanted:
    log = Log("0.5.14", tp=2).arguments().dist().weights(upto=1, ends=False).put("\n")
    line = log.lines
    log.say("Scheduler hit an exception: Traceback (most recent call last):", "TP1").raw(*frames()[:5])
    return Wanted(log, line, "unknown", rank="TP1", phase="weights")


@variant
def interrupted_at_a_terminal() -> Wanted:
    log = Log("0.5.9").arguments().dist().weights(upto=1, ends=False).put("\n")
    line = log.bare("KeyboardInterrupt")
    return Wanted(log, line, "stopped_by_request", "stopped", unit="dead:exit=130")


# -- what an earlier start has left in the file ----------------------------------------------------------------------
@variant
def the_end_of_an_earlier_start_without_its_head() -> Wanted:
    """The file was cut at its head."""
    log = Log("0.5.9", tp=2)
    log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.", rank="TP1")
    log.sigquit().later(60).ready()
    return Wanted(log, log.lines - 1, "none", "ready", unit="active")


@variant
def the_middle_of_an_earlier_start() -> Wanted:
    log = Log("0.5.14", tp=2).batch().say("The server is fired up and ready to roll!")
    log.say("Subprocess scheduler_0 (pid=1) crashed with exit code -9. Triggering SIGQUIT for cleanup...")
    log.later(60).arguments().dist().all("Load weight begin. avail mem=90.00 GB")
    return Wanted(log, log.lines - 1, "loading_weights", "still_starting", unit="active", phase="weights")


@variant
def a_warning_between_two_starts_belongs_to_the_second() -> Wanted:
    log = Log("0.5.9", tp=2).ready().batch()
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...").later(60)
    line = log.lines
    log.raw("/x/cuda/__init__.py:182: UserWarning: The NVIDIA driver on your system is too old (found version 12040).")
    log.say("Fail to set RLIMIT_NOFILE: current limit exceeds maximum limit").arguments()
    log.bare("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA) is available.")
    return Wanted(log, line, "driver_too_old", unit="dead:exit=1")


@variant
def a_stop_of_a_server_that_was_busy_for_once() -> Wanted:
    """SGLang gives a scheduler up for one failed health check, and finds it well only at the next one."""
    log = Log("0.5.12", tp=2).ready().batch("Prefill").later(25).say(UNHEALTHY.format("10:46:08")).batch()
    line = log.lines
    log.say("SIGTERM received. signum=None frame=None. Draining requests and shutting down...").later(3)
    log.say("Signal SIGTERM received while health check failed. Force exiting.")
    return Wanted(log, line, "stopped_by_request", "stopped")


def _slow_shards(after: float, verdict: str, category: str) -> Wanted:
    """A quarter of an hour each, from a far disk."""
    log = Log("0.5.9", tp=2).arguments().dist().all("Load weight begin. avail mem=137.90 GB")
    for done in range(4):
        log.raw(
            f"Loading safetensors checkpoint shards: {done:3d}% Completed | {done}/64 [{done * 15}:00<?, 900.00s/it]"
        )
    return Wanted(log, log.lines - 1, category, verdict, unit="active", phase="weights", after=45 * 60 + after)


@variant
def a_shard_takes_as_long_as_the_others() -> Wanted:
    return _slow_shards(20 * 60, "still_starting", "loading_weights")


@variant
def a_shard_takes_far_longer_than_the_others() -> Wanted:
    return _slow_shards(50 * 60, "stalled", "stalled")
