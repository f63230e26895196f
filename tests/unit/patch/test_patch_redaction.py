"""API keys in what a patched release prints, answers and dumps: its patched lines, with planted keys."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import pickle
import sys
import types
from typing import Any

import pytest
from patch_extracts import node, run, source, tree
from releases import RELEASES

pytestmark = pytest.mark.index

PATCH = "redact_api_keys"
USER_KEY, ADMIN_KEY = "sk-planted-user-key", "sk-planted-admin-key"
SEALED = """
def __setattr__(self, name, value):
    if getattr(self, "_sealed", False):
        raise AttributeError(name)
    object.__setattr__(self, name, value)
"""


def server_args(release: str) -> Any:
    """A record of settings with the methods that the patched ServerArgs has, and a seal as newer releases set one."""
    text = source(release, "srt/server_args.py", PATCH)
    methods = [
        node(text, "ServerArgs", name) for name in ("without_api_keys", "answering_without_api_keys", "__repr__")
    ]
    fields = {"model_path": "/m", "api_key": USER_KEY, "admin_api_key": ADMIN_KEY, "watermark_key": None}
    body = [ast.parse(f"{name}: object = {value!r}").body[0] for name, value in fields.items()]
    decorator = ast.parse("dataclasses.dataclass(repr=True)", mode="eval").body
    made = ast.ClassDef("ServerArgs", [], [], [*body, *methods, *ast.parse(SEALED).body], [decorator])
    if sys.version_info >= (3, 12):
        made.type_params = []
    record = run([made], {"dataclasses": dataclasses, "record_fields": dataclasses.fields})["ServerArgs"]()
    type(record).resolved_dict = dataclasses.asdict
    record._sealed = True
    return record


def leaks(value: Any) -> bool:
    text = value if isinstance(value, str) else repr(value)
    return USER_KEY in text or ADMIN_KEY in text


def lines_with(text: str, *parts: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if all(part in line for part in parts)]


@pytest.mark.parametrize("release", RELEASES)
def test_the_first_line_of_the_log(release: str) -> None:
    record = server_args(release)
    assert record.api_key == USER_KEY and not leaks(repr(record)) and "/m" in repr(record)
    patched = int(release.rpartition(".")[2]) >= 19  # before, the record's own representation is printed
    engine = source(release, "srt/entrypoints/engine.py", PATCH if patched else None)
    logged = lines_with(engine, "logger.info", "server_args")
    assert len(logged) == 2

    def for_logging(given: Any) -> Any:
        names = {"ServerArgs": Any, "Dict": dict, "Any": Any, "redact_watermark_secrets": lambda value: value}
        return run([node(engine, "_server_args_for_logging")], names)["_server_args_for_logging"](given)

    for line in logged:
        printed: list[str] = []
        logger = types.SimpleNamespace(info=printed.append)
        exec(line, {"server_args": record, "_server_args_for_logging": for_logging, "logger": logger})
        assert len(printed) == 1 and "/m" in printed[0] and not leaks(printed[0])


@pytest.mark.parametrize("release", RELEASES)
def test_server_info_and_get_server_info(release: str) -> None:
    http = source(release, "srt/entrypoints/http_server.py", PATCH)
    decorators = [ast.unparse(one) for one in node(http, "server_info").decorator_list]
    assert decorators == ["app.get('/server_info')", "ServerArgs.answering_without_api_keys"]
    assert "await server_info()" in ast.unparse(node(http, "get_server_info"))
    imports = [one for one in tree(http).body if isinstance(one, ast.ImportFrom)]
    assert any(alias.name == "ServerArgs" for one in imports for alias in one.names)

    record = server_args(release)
    settings = dataclasses.asdict(record)

    async def answer() -> dict[str, Any]:
        command = f"sglang --api-key={USER_KEY} --admin-api-k {ADMIN_KEY}"
        return {**settings, "launch_command": command, "internal_states": [{**settings, "load": (1, 2)}]}

    shown = asyncio.run(type(record).answering_without_api_keys(answer)())
    assert not leaks(shown) and shown["model_path"] == "/m" and shown["internal_states"][0]["load"] == (1, 2)
    assert shown["launch_command"] == "sglang --api-key=<redacted> --admin-api-k <redacted>"


@pytest.mark.parametrize("release", RELEASES)
def test_request_and_crash_dumps(release: str) -> None:
    """Everything that is pickled is a copy without keys; what is running keeps them."""
    record = server_args(release)
    manager = source(release, "srt/managers/tokenizer_manager.py", PATCH)
    lines = lines_with(manager, "pickle.dump(")
    assert len(lines) in (2, 4)
    requests = [("a request", {"text": "hello"})]
    content = {"server_args": record, "requests": requests, "launch_command": f"x --api-key {USER_KEY}"}
    names = {"to_dump_with_server_args": content, "data_to_dump_with_server_args": content, "f": None}
    dumped: list[Any] = []
    dumping = types.SimpleNamespace(dump=lambda value, f: dumped.append(value))
    for line in lines:
        exec(line, {**names, "ServerArgs": type(record), "pickle": dumping})
    assert len(dumped) == len(lines)
    for value in dumped:
        kept = {**value, "server_args": vars(value["server_args"])}
        assert not any(key.encode() in pickle.dumps(kept) for key in (USER_KEY, ADMIN_KEY))
        assert value["requests"] is requests and value["server_args"].model_path == "/m"
    assert record.api_key == USER_KEY and record.admin_api_key == ADMIN_KEY


@pytest.mark.parametrize("release", RELEASES)
def test_answers_over_grpc(release: str) -> None:
    """Where a release answers GetServerInfo by itself, that answer goes through the redaction too."""
    number = int(release.rpartition(".")[2])
    if number < 10:
        text = source(release, "srt/entrypoints/grpc_server.py", PATCH)
        assert "ServerArgs.without_api_keys(dataclasses.asdict(self.server_args))" in text
    elif 14 <= number < 22:
        text = ast.unparse(node(source(release, "srt/entrypoints/grpc_bridge.py", PATCH), "get_server_info"))
        assert text.index("without_api_keys({**result") < text.index("return json.dumps(")
    elif number >= 22:
        function = node(source(release, "srt/utils/common.py", PATCH), "build_server_info")
        record = server_args(release)
        type(record).launch_command = f"sglang --api-key={USER_KEY}"
        names = {"Dict": dict, "Any": Any, "describe_kv_events_publisher": lambda given: None}
        shown = run([function], names)["build_server_info"](record, {"status": "ready"})
        assert not leaks(shown) and shown["status"] == "ready" and "<redacted>" in shown["launch_command"]
    else:
        folder = "srt/entrypoints/"
        assert not any(name in source(release, folder + "engine.py") for name in ("GetServerInfo", "grpc_bridge"))


def test_a_key_that_is_not_set_stays_unset() -> None:
    hidden = type(server_args("0.5.9")).without_api_keys({"api_key": None, "admin_api_key": "", "launch_command": "x"})
    assert hidden == {"api_key": None, "admin_api_key": "", "launch_command": "x"}
