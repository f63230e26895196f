"""Models, weights, and the modules that load them."""

from __future__ import annotations

from writing import DRAFT_FRAMES, MAIN_FRAMES, SITE, Log, frames

from . import Wanted, variant


@variant
def the_folder_is_not_there() -> Wanted:
    log = Log("0.5.9")
    log.raw(
        "Traceback (most recent call last):", '  File "/x/hub.py", line 422, in cached_files', "    hf_hub_download("
    )
    log.raw(
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "'/srv/models/kimi'. Use `repo_type` argument if needed.",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
    )
    line = log.bare(
        "OSError: Incorrect path_or_model_id: '/srv/models/kimi'. Please provide either the path to a local folder or "
        "the repo_id of a model on the Hub."
    )
    return Wanted(log, line, "model_path_missing", unit="dead:exit=1", phase="args")


@variant
def the_folder_is_empty() -> Wanted:
    log = Log("0.5.15")
    line = log.bare(
        "OSError: /srv/models/kimi does not appear to have a file named config.json. Checkout "
        "'https://huggingface.co//srv/models/kimi/tree/main' for available files."
    )
    return Wanted(log, line, "model_path_missing", unit="dead:exit=1", phase="args")


@variant
def the_folder_is_not_there_and_the_hub_is_blamed() -> Wanted:
    log = Log("0.5.9")
    line = log.bare(
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached "
        "files and it looks like /srv/models/kimi is not the path to a directory containing a file named config.json."
    )
    return Wanted(log, line, "model_path_missing", unit="dead:exit=1")


@variant
def the_draft_folder_is_not_there() -> Wanted:
    log = Log("0.5.15", spec=True).arguments().dist().weights()
    line = log.hit(
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': "
        "'/data/eagle3'. Use `repo_type` argument if needed.",
        *DRAFT_FRAMES,
    )
    return Wanted(log.sigquit(), line, "model_path_missing")


@variant
def the_hub_does_not_answer() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    line = log.hit(
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
        "exceeded with url: /api/models/x (Caused by NameResolutionError(\"Failed to resolve 'huggingface.co'\"))"
    )
    return Wanted(log.sigquit(), line, "model_hub_unreachable")


@variant
def the_hub_is_not_asked_and_the_cache_is_empty() -> Wanted:
    log = Log("0.5.23")
    line = log.bare(
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
        "specified revision on the local disk and outgoing traffic has been disabled."
    )
    return Wanted(log, line, "model_hub_unreachable", unit="dead:exit=1")


@variant
def a_gated_model() -> Wanted:
    log = Log("0.5.9")
    line = log.bare(
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
        "https://huggingface.co/meta-llama/Llama-3.1-8B.\n401 Client Error."
    )
    return Wanted(log, line, "model_hub_denied", unit="dead:exit=1")


@variant
def no_weights_in_the_folder() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().all("Load weight begin. avail mem=137.90 GB")
    line = log.hit("RuntimeError: Cannot find any model weights with `/srv/models/m`", rank="TP0")
    return Wanted(log.sigquit(), line, "weights_missing", rank="TP0", phase="weights")


@variant
def one_shard_is_missing() -> Wanted:
    log = Log("0.5.15").arguments().dist().weights(upto=1, ends=False).put("\n")
    line = log.hit(
        "FileNotFoundError: No such file or directory: /srv/models/m/model-00003-of-00004.safetensors",
        ("sglang/srt/model_loader/weight_utils.py", 700, "_load_file", "with safe_open(st_file) as f:"),
    )
    return Wanted(log.sigquit(), line, "weights_missing", phase="weights")


@variant
def a_truncated_shard() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist().weights(upto=2, ends=False)
    line = log.hit(
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", rank="TP1"
    )
    return Wanted(log.sigquit(), line, "weights_truncated", rank="TP1", phase="weights")


@variant
def a_git_lfs_pointer_in_the_words_of_a_new_library() -> Wanted:
    log = Log("0.5.23").arguments().dist().weights(upto=0, ends=False).put("\n")
    line = log.hit("safetensors_rust.SafetensorError: Error while deserializing header: header too large")
    return Wanted(log.sigquit(), line, "weights_truncated", phase="weights")


@variant
def an_architecture_that_the_release_does_not_know() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    log.say("Ignore import error when loading sglang.srt.models.midashenglm: No module named 'torchaudio'")
    log.say("Load weight begin. avail mem=137.90 GB")
    line = log.hit(
        "ValueError: Model architectures ['FutureForCausalLM'] are not supported for now. Supported architectures: "
        "dict_keys(['LlamaForCausalLM', 'KimiK25ForConditionalGeneration'])"
    )
    return Wanted(log.sigquit(), line, "architecture_unknown", phase="weights")


@variant
def the_module_of_our_own_architecture_does_not_import() -> Wanted:
    log = Log("0.5.9", tp=2).arguments().dist()
    log.all("Ignore import error when loading sglang.srt.models.glm_ocr: No module named 'transformers.models.glm_ocr'")
    line = log.lines
    log.all("Ignore import error when loading sglang.srt.models.kimi_k25: invalid syntax (kimi_k25.py, line 210)")
    log.all("Ignore import error when loading sglang.srt.models.kimi_vl_moonvit: No module named 'flash_attn'")
    log.all("Load weight begin. avail mem=137.90 GB")
    for rank in log.ranks:
        log.hit(
            "ValueError: Model architectures ['KimiK25ForConditionalGeneration'] are not supported for now. Supported "
            "architectures: dict_keys(['LlamaForCausalLM'])",
            rank=rank,
        )
    return Wanted(log.sigquit(), line, "model_module_import_broken", rank="TP0")


@variant
def the_module_of_our_own_architecture_and_transformers_instead() -> Wanted:
    log = Log("0.5.15").arguments().dist()
    line = log.lines
    log.say("Ignore import error when loading sglang.srt.models.deepseek_v2: expected ':' (deepseek_v2.py, line 1210)")
    log.say("Load weight begin. avail mem=137.90 GB")
    log.hit(
        "ValueError: DeepseekV2ForCausalLM has no SGlang implementation and the Transformers implementation is not "
        "compatible with SGLang."
    )
    return Wanted(log.sigquit(), line, "model_module_import_broken")


@variant
def a_python_module_is_missing_at_import() -> Wanted:
    log = Log("0.5.15")
    line = log.bare("ModuleNotFoundError: No module named 'orjson'", base=(("sglang/launch_server.py", 7, "m", "x"),))
    return Wanted(log, line, "python_module_missing", unit="dead:exit=1", phase="import")


@variant
def sglang_itself_is_missing() -> Wanted:
    log = Log("0.5.15").raw("/opt/x/bin/python3: No module named sglang.launch_server")
    return Wanted(log, 1, "python_module_missing", unit="dead:exit=1", phase="import")


@variant
def a_file_with_a_syntax_error() -> Wanted:
    log = Log("0.5.15").arguments()
    log.raw("Traceback (most recent call last):", *frames(base=MAIN_FRAMES))
    log.raw(f'  File "{SITE}/sglang/srt/models/kimi_k25.py", line 3', "    def x(:", "          ^")
    line = log.lines
    log.raw("SyntaxError: invalid syntax")
    return Wanted(log, line, "source_syntax_error", unit="dead:exit=1")


@variant
def custom_code_needs_permission() -> Wanted:
    log = Log("0.5.9")
    line = log.bare(
        "ValueError: The repository /srv/models/kimi contains custom code which must be executed to correctly load the "
        "model. Please pass the argument `trust_remote_code=True` to allow custom code to be run."
    )
    return Wanted(log, line, "trust_remote_code_needed", unit="dead:exit=1")


FALLS_BACK = (
    "LlamaForCausalLM has no SGLang implementation, falling back to Transformers implementation. Some features may not "
    "be supported and performance may not be optimal."
)


@variant
def a_broken_module_that_transformers_stands_in_for() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    log.say("Ignore import error when loading sglang.srt.models.llama_embedding: invalid syntax (llama.py, line 812)")
    line = log.lines
    log.say("Ignore import error when loading sglang.srt.models.llama: invalid syntax (llama.py, line 812)")
    log.say("Ignore import error when loading sglang.srt.models.llama_reward: invalid syntax (llama.py, line 812)")
    log.say(FALLS_BACK).weights("TransformersForCausalLM").pool().http().fired_up()
    return Wanted(log, line, "model_module_import_broken", unit="active")


@variant
def a_model_that_only_transformers_knows() -> Wanted:
    log = Log("0.5.9").arguments().dist()
    log.say("Ignore import error when loading sglang.srt.models.qwen: No module named 'vllm'")
    log.say(FALLS_BACK.replace("LlamaFor", "Qwen4For")).weights("TransformersForCausalLM").pool().http().fired_up()
    return Wanted(log, log.lines - 1, "none", "ready", unit="active")


@variant
def the_module_of_our_own_draft_is_damaged() -> Wanted:
    log = Log("0.5.23", tp=2, spec=True).arguments().dist().weights()
    log.all("Ignore import error when loading sglang.srt.models.glm4v_moe: No module named 'timm'")
    line = log.lines
    log.all(
        "Ignore import error when loading sglang.srt.models.llama_eagle3: invalid syntax (llama_eagle3.py, line 88)"
    )
    log.all("Load weight begin. avail mem=23.00 GB")
    log.hit("ValueError: Model architectures ['LlamaForCausalLMEagle3'] are not supported for now.", *DRAFT_FRAMES)
    return Wanted(log.sigquit(), line, "model_module_import_broken", rank="TP0", phase="weights_draft")


@variant
def a_damaged_draft_whose_class_is_named_otherwise() -> Wanted:
    log = Log("0.5.18", tp=2, spec=True).arguments().dist().weights("KimiK25ForConditionalGeneration")
    log.all("Ignore import error when loading sglang.srt.models.midashenglm: No module named 'torchaudio'")
    line = log.lines
    log.all(
        "Ignore import error when loading sglang.srt.models.kimi_k25_eagle3: unexpected indent "
        "(kimi_k25_eagle3.py, line 9)"
    )
    log.all("Load weight begin. avail mem=23.00 GB")
    log.hit("ValueError: Model architectures ['Eagle3DeepseekV2ForCausalLM'] are not supported for now.", *DRAFT_FRAMES)
    return Wanted(log.sigquit(), line, "model_module_import_broken", rank="TP0", phase="weights_draft")


@variant
def a_missing_package_of_another_draft_is_noise() -> Wanted:
    log = Log("0.5.18", tp=2, spec=True).arguments().dist().weights()
    log.all("Ignore import error when loading sglang.srt.models.qwen3_5_mtp: No module named 'fla'")
    log.all("Load weight begin. avail mem=23.00 GB")
    line = log.hit(
        "ValueError: Model architectures ['Foo2ForCausalLMEagle3'] are not supported for now.", *DRAFT_FRAMES
    )
    return Wanted(log.sigquit(), line, "architecture_unknown", rank="TP0", phase="weights_draft")


@variant
def a_package_is_missing_in_every_process() -> Wanted:
    """The first of several that end alike is the cause, not the last."""
    log = Log("0.5.12", tp=2).arguments()
    base = (("<string>", 1, "<module>", "…"), ("sglang/srt/managers/scheduler.py", 60, "<module>", "import xgrammar"))
    log.raw("Process SpawnProcess-1:")
    line = log.bare("ModuleNotFoundError: No module named 'xgrammar'", base=base)
    log.raw("Process SpawnProcess-2:")
    log.bare("ModuleNotFoundError: No module named 'xgrammar'", base=base)
    log.bare("RuntimeError: Rank 0 scheduler died during initialization (exit code: 1).")
    return Wanted(log, line, "python_module_missing", unit="dead:exit=1")


@variant
def a_gated_model_and_all_that_the_hub_said() -> Wanted:
    """Of a chain that begins with a status of HTTP, what sums it up."""
    log = Log("0.5.9")
    chained = ("", "The above exception was the direct cause of the following exception:", "")
    log.bare("requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/a/b/x.json")
    log.raw(*chained)
    log.bare("huggingface_hub.errors.GatedRepoError: 401 Client Error.\n\nCannot access gated repo for url https://x.")
    log.raw(*chained)
    line = log.bare("OSError: You are trying to access a gated repo.\nMake sure to have access to it.")
    return Wanted(log, line, "model_hub_denied", unit="dead:exit=1")


@variant
def a_configuration_that_is_not_there() -> Wanted:
    """The hub's complaint about the form of a name comes first, and misleads."""
    log = Log("0.5.12")
    log.bare(
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name': '/srv/models/kimi-k25'."
    )
    log.raw("", "During handling of the above exception, another exception occurred:", "")
    line = log.bare(
        "OSError: Can't load the configuration of '/srv/models/kimi-k25'. If you were trying to load it from "
        "'https://huggingface.co/models', make sure you don't have a local directory with the same name."
    )
    return Wanted(log, line, "model_path_missing", unit="dead:exit=1")
