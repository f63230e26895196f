"""Starts that are well, under way or being stopped, however their logs look; and hangs and ends that look alike."""

from __future__ import annotations

from writing import Log, frames

from . import Wanted, variant

_READ_TIMEOUT = (
    "(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\"), "
    "'(Request ID: 0bbebbcf)')"
)
_CUDA_ERROR = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
)
_TAKEN = "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use"
_STOP = "SIGTERM received. signum=None frame=None. Draining requests and shutting down..."


def _ready(log: Log) -> Wanted:
    """Whatever comes later, it serves since it said so."""
    line = log.text[: log.text.rindex("The server is fired up")].count("\n") + 1
    return Wanted(log, line, "none", "ready", unit="active", phase="serving")


def _failed_before(release: str) -> Log:
    """A log that is appended to, with a start that failed, a minute ago."""
    log = Log(release, tp=2).arguments().dist().weights(upto=1, ends=False).put("\n")
    log.hit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB.", rank="TP1")
    return log.sigquit().later(60)


def _retried(log: Log) -> Log:
    """``traceback.print_exc`` and a warning."""
    through = ("sglang/srt/utils/common.py", 3148, "retry", "return fn()")
    log.raw("Traceback (most recent call last):", *frames(through, base=()))
    log.raw("requests.exceptions.ReadTimeout: " + _READ_TIMEOUT)
    return log.say(
        f"retry() failed once (0th try, maximum 2 retries). Will delay 1.84s and retry. Error: {_READ_TIMEOUT}"
    ).later(2)


# -- ready -----------------------------------------------------------------------------------------------------------
@variant
def every_rank_fails_to_see_nvlink() -> Wanted:
    log = Log("0.5.19", tp=4).arguments().dist()
    for rank in log.ranks:
        log.say("NVLink detection failed. This is normal if your machine has no NVLink equipped.", rank)
        log.raw(
            "Traceback (most recent call last):", *frames(("pynvml.py", 1042, "_nvmlCheckReturn", "raise"), base=())
        )
        log.raw("pynvml.NVMLError_NotSupported: Not Supported")
    return _ready(log.weights().pool().capture().http().fired_up())


@variant
def a_workspace_that_meets_a_cuda_error() -> Wanted:
    log = Log("0.5.21", tp=2).arguments().dist().weights().pool()
    for rank in log.ranks:
        text = "Failed to initialize FlashInfer workspace (backend=trtllm): CUDA error: operation not supported"
        log.say(text, rank).raw(*_CUDA_ERROR, ". Disabling flashinfer allreduce fusion permanently.")
    return _ready(log.capture().http().fired_up())


@variant
def choices_of_inductor_that_do_not_fit() -> Wanted:
    log = Log("0.5.20", tp=2).arguments(enable_torch_compile=True).dist().weights().pool()
    head = "[rank1]:E1120 10:02:55.590000 255948 torch/_inductor/select_algorithm.py:2630] [16/4] "
    log.raw(
        head + "Runtime error during autotuning: ",
        head + "No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 264192 Hardware "
        "limit:232448 Reducing block sizes or `num_stages` may help.. ",
        head + "Ignoring this choice.",
    )
    return _ready(log.capture().http().fired_up())


@variant
def warnings_that_name_an_illegal_access() -> Wanted:
    log = Log("0.5.18", tp=2).arguments().dist().weights().pool()
    log.raw("Workspace is insufficient for problem size. Workspace validation failed:")
    log.raw(
        "  - token_num (8192) * hidden_dim (2880) exceeds workspace max_token_num (2048) * hidden_dim (2880). This may "
        "cause Illegal Memory Access."
    )
    return _ready(log.capture().http().fired_up())


@variant
def what_nccl_says_when_it_is_asked_to_say_all() -> Wanted:
    log = Log("0.5.14", tp=2).arguments()
    head = "gpu07:4120:4120 [0] NCCL INFO "
    log.raw(
        head + "ncclOsDlopen(libnccl-net.so) failed: libnccl-net.so: cannot open shared object file: No such file or "
        "directory",
        head + "dlvsym failed on mlx5dv_get_data_direct_sysfs_path - /lib/x86_64-linux-gnu/libmlx5.so: undefined "
        "symbol: mlx5dv_get_data_direct_sysfs_path, version MLX5_1.25 version MLX5_1.25",
    )
    return _ready(log.dist().weights().pool().capture().http().fired_up())


@variant
def a_soft_watchdog_barks() -> Wanted:
    log = Log("0.5.23", tp=2).ready().later(340)
    log.say("Scheduler watchdog timeout (self.watchdog_timeout=300.0, self.soft=True)", "TP0").raw("", "")
    return _ready(log.later(5).batch())


@variant
def a_second_node_without_its_health_port() -> Wanted:
    log = Log("0.5.23", tp=16).arguments(nnodes=2, node_rank=1)
    log.local = range(8, 16)
    log.dist().weights()
    line = log.lines
    log.say("Dummy health check server started in background thread at 0.0.0.0:30000")
    log.say("[Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use")
    log.say("Dummy health check server stopped at 0.0.0.0:30000")
    return Wanted(log, line, "none", "ready", unit="active", phase="serving")


@variant
def a_refused_warmup_that_was_made_up_for() -> Wanted:
    log = Log("0.5.19", tp=2).arguments(disaggregation_mode="prefill").loaded().http()
    log.say("Disaggregation warmup failed (mode=prefill), status codes: [500]")
    log.say("The server is fired up and ready to roll!").later(30)
    return _ready(log.say('INFO:     127.0.0.1:5150 - "GET /health HTTP/1.1" 200 OK'))


# -- under way -------------------------------------------------------------------------------------------------------
def _host_pool(release: str, words: str, after: float, verdict: str, category: str) -> Wanted:
    log = Log(release, tp=2).arguments(enable_hierarchical_cache=True).loaded().all(words)
    return Wanted(log, log.lines - 1, category, verdict, unit="active", phase="kv_pool_host", after=after)


@variant
def host_memory_takes_minutes_to_pin() -> Wanted:
    words = "Allocating 700.00 GB host memory for hierarchical KV cache."
    return _host_pool("0.5.9", words, 400, "still_starting", "allocating_kv_cache")


@variant
def host_memory_that_is_never_pinned() -> Wanted:
    words = "Allocating MHA hierarchical KV host pool: 1560840 tokens, 700.00 GB host memory."
    return _host_pool("0.5.21", words, 3600, "stalled", "stalled")


def _autotune(after: float, verdict: str, category: str) -> Wanted:
    log = Log("0.5.15", tp=2).arguments().dist().weights().pool()
    log.all("Running FlashInfer autotune with cache: /var/cache/sglang/autotune.json")
    return Wanted(log, log.lines - 1, category, verdict, unit="active", phase="kv_pool", after=after)


@variant
def kernels_are_tuned() -> Wanted:
    return _autotune(300, "still_starting", "jit_compile")


@variant
def kernels_are_tuned_for_ever() -> Wanted:
    return _autotune(3600, "stalled", "stalled")


@variant
def an_extension_is_built() -> Wanted:
    log = Log("0.5.23").arguments().dist().weights().raw("Building extension module sgl_hicache...")
    return Wanted(log, log.lines - 1, "jit_compile", "still_starting", unit="active", after=60)


@variant
def an_extension_has_been_built() -> Wanted:
    log = Log("0.5.23").arguments().dist().weights()
    log.raw("Building extension module sgl_hicache...", "Loading extension module sgl_hicache...")
    return Wanted(log, log.lines - 1, "allocating_kv_cache", "still_starting", unit="active", after=60)


@variant
def deep_gemm_is_no_lock_of_flashinfers() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights().pool().capture(upto=0, ends=False).put("\n")
    log.say("Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins)", "TP0")
    log.put("\rDeepGEMM warmup:  12%|█▏        | 2010/16384 [00:55<06:33, 36.54it/s]")
    return Wanted(log, log.lines, "stalled", "stalled", unit="active", phase="graph_capture", after=7200)


# -- an earlier start in the same file ------------------------------------------------------------------------------
@variant
def a_new_start_that_has_said_nothing_yet() -> Wanted:
    log = _failed_before("0.5.12")
    return Wanted(log, None, "starting", "still_starting", unit="active", phase="import", began=log.now)


@variant
def a_new_start_that_hangs_before_its_first_record() -> Wanted:
    log = _failed_before("0.5.20")
    began = log.now
    log.raw("Skipping import of cpp extensions due to incompatible torch version 2.9.1+cu130")
    return Wanted(log, log.lines - 1, "stalled", "stalled", unit="active", phase="import", began=began, after=3600)


@variant
def a_new_start_that_dies_before_its_first_record() -> Wanted:
    log = _failed_before("0.5.14")
    began = log.now
    imports = (("sglang/launch_server.py", 7, "<module>", "from sglang.srt.server_args import prepare_server_args"),)
    line = log.bare("ImportError: /x/common_ops.abi3.so: undefined symbol: _ZN3c104cuda", base=imports)
    return Wanted(log, line, "kernel_wheel_torch_abi", unit="dead:exit=1", phase="import", began=began)


# -- it says that it serves -----------------------------------------------------------------------------------------
def _refused(release: str, words: str) -> Wanted:
    log = Log(release, tp=2).arguments(disaggregation_mode="prefill").loaded().http().batch("Prefill")
    line = log.lines
    log.say(words).say("The server is fired up and ready to roll!").later(9)
    log.say('INFO:     127.0.0.1:5150 - "GET /health HTTP/1.1" 503 Service Unavailable')
    return Wanted(log, line, "warmup_failed", unit="active", phase="warmup", was_ready=False)


@variant
def its_own_first_request_was_refused() -> Wanted:
    return _refused("0.5.19", "Disaggregation warmup failed (mode=prefill), status codes: [500]")


@variant
def its_own_first_request_was_refused_in_the_words_of_057() -> Wanted:
    return _refused("0.5.7", "Prefill disaggregation mode warm Up Failed, status code: 500")


@variant
def it_serves_before_it_has_its_port() -> Wanted:
    """Without a warm-up it says so at once."""
    log = Log("0.5.18").arguments(skip_server_warmup=True).loaded()
    log.say("The server is fired up and ready to roll!").say("INFO:     Application startup complete.")
    line = log.lines
    log.say(_TAKEN).say("INFO:     Waiting for application shutdown.")
    return Wanted(log, line, "http_port_in_use", unit="dead:exit=1", phase="http_bind", was_ready=False)


@variant
def it_serves_after_it_was_refused_its_port() -> Wanted:
    """Its warm-up has met the server that holds the port."""
    log = Log("0.5.10").arguments().loaded()
    line = log.lines
    log.say(_TAKEN).say("The server is fired up and ready to roll!")
    return Wanted(log, line, "http_port_in_use", unit="dead:exit=3", phase="http_bind", was_ready=False)


# -- killed, and what was survived long before -----------------------------------------------------------------------
@variant
def a_bad_request_long_before_the_end() -> Wanted:
    log = Log("0.5.17").ready().say("Error in request: 'NoneType' object is not subscriptable")
    through = ("sglang/srt/entrypoints/openai/serving_base.py", 101, "handle_request", "…")
    log.raw("Traceback (most recent call last):", *frames(through, base=()))
    log.raw("TypeError: 'NoneType' object is not subscriptable").later(30).batch()
    more = {"oom_kills": 1}
    return Wanted(log, log.lines - 1, "child_sigkill_host_oom", phase="serving", more=more, was_ready=True)


@variant
def an_exception_of_many_lines_long_before_the_end() -> Wanted:
    log = Log("0.5.19").ready().say("Error in request: CUDA error: invalid argument").raw(*_CUDA_ERROR, "")
    through = ("sglang/srt/entrypoints/openai/serving_base.py", 101, "handle_request", "…")
    log.raw("Traceback (most recent call last):", *frames(through, base=()))
    log.raw("torch.AcceleratorError: CUDA error: invalid argument", *_CUDA_ERROR, "").later(30).batch()
    return Wanted(log, log.lines - 1, "child_sigkill", phase="serving", was_ready=True)


@variant
def an_exception_in_a_finalizer_long_before_the_end() -> Wanted:
    log = Log("0.5.22").ready().raw("Exception ignored in: <function ShmPointerMMData.__del__ at 0x7f2a3c1d9120>")
    through = ("sglang/srt/managers/mm_utils.py", 1422, "__del__", "self.shm.unlink()")
    log.raw("Traceback (most recent call last):", *frames(through, base=()))
    log.raw("FileNotFoundError: [Errno 2] No such file or directory: '/psm_21467fa0'").later(9).batch()
    return Wanted(log, log.lines - 1, "child_sigkill", phase="serving", was_ready=True)


@variant
def a_call_that_was_tried_again_long_before_the_end() -> Wanted:
    log = _retried(Log("0.5.15")).arguments().dist().all("Load weight begin. avail mem=137.90 GB")
    return Wanted(log, log.lines - 1, "child_sigkill", phase="weights")


@variant
def a_call_that_was_tried_again_in_vain() -> Wanted:
    log = _retried(Log("0.5.15"))
    error = "requests.exceptions.ReadTimeout: " + _READ_TIMEOUT
    hub = ("huggingface_hub/hf_api.py", 2900, "file_exists", "get_hf_file_metadata(url, token=token)")
    line = log.bare(f"{error}\n\nDuring handling of the above exception, another exception occurred:\n", hub)
    log.bare("Exception: retry() exceed maximum number of retries.")
    return Wanted(log, line, "model_hub_unreachable", unit="dead:exit=1")


# -- a stop under way ------------------------------------------------------------------------------------------------
@variant
def workers_end_while_it_stops() -> Wanted:
    wanted = _ready(Log("0.5.22", tp=2).ready().later(90).say(_STOP).later(6))
    wanted.unit, wanted.more = "deactivating", {"dead_children": (("sglang::scheduler_TP0", "exit=0"),)}
    return wanted


@variant
def a_rank_complains_while_it_stops() -> Wanted:
    log = Log("0.5.18", tp=4).ready().later(90).say(_STOP).later(2)
    log.hit("RuntimeError: [/x/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.5]:3345", rank="TP2")
    wanted = _ready(log)
    wanted.unit = "deactivating"
    return wanted


@variant
def the_warmup_breaks_while_it_stops() -> Wanted:
    log = Log("0.5.15").arguments().loaded().http().later(2).say(_STOP).later(5)
    log.say("Initialization failed. warmup error: Traceback (most recent call last):")
    log.raw(*frames(("requests/adapters.py", 677, "send", "raise ConnectionError(e, request=request)"), base=()))
    log.raw("requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('Remote end closed'))", "")
    return Wanted(log, log.lines - 2, "warming_up", "still_starting", unit="deactivating", phase="warmup")


@variant
def it_broke_before_it_was_stopped() -> Wanted:
    log = Log("0.5.18", tp=4).ready().later(90).batch()
    line = log.hit("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", rank="TP2")
    log.later(1).say(_STOP)
    return Wanted(log, line, "illegal_memory_access", unit="deactivating", rank="TP2", phase="serving", was_ready=True)


# -- health ----------------------------------------------------------------------------------------------------------
def _unanswered(checks: int, **more: object) -> tuple[Log, int, dict[str, object]]:
    """Nothing is said of a batch before it is done."""
    log = Log("0.5.14", tp=2).ready().later(60)
    line = log.lines
    for dummy in range(checks):
        log.later(20).say(
            "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: "
            "10:05:30. last_heartbeat time: 10:00:58"
        )
    return log, line, more


@variant
def the_first_request_compiles_for_a_minute() -> Wanted:
    log, line, more = _unanswered(4, workers_live=True)
    return Wanted(log, line - 1, "none", "ready", unit="active", more=more)


@variant
def a_live_worker_that_answers_nobody_for_as_long_as_a_watchdog_waits() -> Wanted:
    log, line, more = _unanswered(15, workers_live=True)
    return Wanted(log, line, "child_sigkill_zombie_service", unit="active", more=more, was_ready=True)


# -- silence, and an end without a word ------------------------------------------------------------------------------
@variant
def the_first_request_takes_as_long_as_sglang_waits_for_it() -> Wanted:
    log = Log("0.5.19", tp=2).arguments().loaded().http().later(1)
    line = log.lines
    log.say('INFO:     127.0.0.1:5142 - "GET /model_info HTTP/1.1" 200 OK')
    return Wanted(log, line, "warming_up", "still_starting", unit="active", phase="warmup", after=480)


def _wordless(words: str) -> Wanted:
    """The last line is all that is known."""
    log = Log("0.5.16", tp=2).arguments().dist().all(words).all("Load weight begin. avail mem=137.90 GB")
    return Wanted(log, log.lines - 1, "unknown", unit="dead:exit=1", phase="weights")


@variant
def an_end_without_a_word_after_a_note_on_performance() -> Wanted:
    return _wordless(
        "Using default MoE kernel config. Performance might be sub-optimal! Config file not found at /x.json"
    )


@variant
def an_end_without_a_word_after_a_warning() -> Wanted:
    return _wordless(
        "Setup Custom allreduce failed with peer access is not supported. To silence this warning, specify "
        "--disable-custom-all-reduce explicitly."
    )


@variant
def a_data_parallel_rank_never_loads() -> Wanted:
    log = Log("0.5.17", dp=2).arguments().dist().all("Load weight begin. avail mem=137.90 GB")
    line = log.lines - 1
    log.later(20).say("Load weight end. elapsed=8.31 s, type=LlamaForCausalLM, avail mem=123.03 GB", "DP0 TP0")
    return Wanted(log, line, "stalled", "stalled", unit="active", rank="DP1 TP0", phase="weights", after=3600)
