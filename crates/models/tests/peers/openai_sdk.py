"""Reads two streamed answers of each protocol with the official client and prints what it made of them."""

import json
import sys

from openai import OpenAI

chat_url, responses_url = sys.argv[1:]


def chat(client):
    request = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        answer = stream.get_final_completion()
    message = answer.choices[0].message
    assert (message.content or "") == text
    calls = [(call.id, call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    return text, calls, (answer.usage.prompt_tokens, answer.usage.completion_tokens)


def responses(client):
    with client.responses.stream(model="scripted", input="hello") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        answer = stream.get_final_response()
    assert answer.output_text == text
    calls = [
        (item.call_id, item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"
    ]
    return text, calls, (answer.usage.input_tokens, answer.usage.output_tokens)


def answers(read, base_url):
    client = OpenAI(base_url=base_url, api_key="sk-peer", max_retries=0)
    both = [read(client), read(client)]
    return [{"text": text, "calls": calls, "usage": usage} for text, calls, usage in both]


print(json.dumps({"chat": answers(chat, chat_url), "responses": answers(responses, responses_url)}))
