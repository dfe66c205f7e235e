"""Reads two streamed answers with the official client and prints what it made of them."""

import json
import sys

from anthropic import Anthropic

client = Anthropic(base_url=sys.argv[1], api_key="sk-peer", max_retries=0)


def message():
    request = {"model": "scripted", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
    with client.messages.stream(**request) as stream:
        text = "".join(stream.text_stream)
        answer = stream.get_final_message()
    assert "".join(block.text for block in answer.content if block.type == "text") == text
    calls = [(block.id, block.name, block.input) for block in answer.content if block.type == "tool_use"]
    return text, calls, (answer.usage.input_tokens, answer.usage.output_tokens)


answers = [message(), message()]
print(json.dumps([{"text": text, "calls": calls, "usage": usage} for text, calls, usage in answers]))
