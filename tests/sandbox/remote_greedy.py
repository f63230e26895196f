"""Runs on a host, in the interpreter of a server's build: are the server's greedy tokens those of transformers?

Arguments: the server's port and its model. Prints a JSON list of what was asked, what came, and what should have come.
"""

from __future__ import annotations

import json
import sys
import urllib.request

PROMPTS = ("The quick brown fox", "Hello, world", "0123", "a\nb")
NEW_TOKENS = 24


def served(port: str, tokens: list[int]) -> dict:
    """The server's answer to a greedy request."""
    body = {"input_ids": tokens, "sampling_params": {"max_new_tokens": NEW_TOKENS, "temperature": 0}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/generate", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def main(port: str, model_path: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path)
    model = AutoModelForCausalLM.from_pretrained(model_path, torch_dtype=torch.float32)
    rows = []
    for prompt in PROMPTS:
        tokens = tokenizer(prompt, return_tensors="pt").input_ids
        wanted = model.generate(tokens, max_new_tokens=NEW_TOKENS, do_sample=False)[0, tokens.shape[1] :].tolist()
        answer = served(port, tokens[0].tolist())
        length = answer["meta_info"].get("spec_accept_length")
        rows.append({"prompt": prompt, "wanted": wanted, "got": answer["output_ids"], "accept_length": length})
    print(json.dumps(rows))


if __name__ == "__main__":
    main(*sys.argv[1:])
