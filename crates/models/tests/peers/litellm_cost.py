"""Prints what LiteLLM knows of the models named on the command line, and what it charges for usage told by providers.

Input: a JSON object {"models": [id], "bodies": [{"api": ..., "model": id, "usage": {...}}]}.
"""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
from litellm.llms.anthropic.chat.transformation import AnthropicConfig  # noqa: E402
from litellm.responses.utils import ResponseAPILoggingUtils  # noqa: E402
from litellm.types.utils import Usage  # noqa: E402

asked = json.loads(sys.argv[1])
DOLLAR_PER_TOKEN = 10**12  # in micros per million tokens


def prices(model):
    known = litellm.model_cost.get(model) or litellm.model_cost.get("gemini/" + model)
    if not known:
        return None
    names = ["input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost",
             "cache_creation_input_token_cost"]
    at = [None if known.get(name) is None else round(known[name] * DOLLAR_PER_TOKEN) for name in names]
    steps = [int(name.split("_above_")[1].split("k_")[0]) * 1000 for name in known
             if name.startswith("input_cost_per_token_above_") and name.endswith("k_tokens")]
    return {"prices": at, "dearer_above": min(steps, default=None), "window": known.get("max_input_tokens")}


def usage(api, told):
    if api == "anthropic":
        return AnthropicConfig().calculate_usage(usage_object=told, reasoning_content=None)
    if api == "responses":
        return ResponseAPILoggingUtils._transform_response_api_usage_to_chat_usage(told)
    return Usage(**told)


def cost(body):
    provider = "anthropic" if body["api"] == "anthropic" else "openai"
    parts = litellm.cost_per_token(
        model=body["model"], custom_llm_provider=provider, usage_object=usage(body["api"], body["usage"])
    )
    return sum(parts) * 10**6


print(json.dumps({"models": {model: prices(model) for model in asked["models"]},
                  "costs": [cost(body) for body in asked["bodies"]]}))
