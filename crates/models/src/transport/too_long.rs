//! The wordings of errors for a request that exceeds the model's context window.
//!
//! There is no standard for it: most servers answer 400, some 413, 422 or 500, each with a different sentence. The table was
//! collected on 2026-11-22 from the documentation and the source of the servers and from the lists in pi (`overflow.ts`),
//! opencode (`provider/error.ts`), `LiteLLM` (`exception_mapping_utils.py`) and cline.

use std::collections::BTreeSet;

use http::StatusCode;

use super::wordings::{Wording, is_any_in, wordings};

#[rustfmt::skip]
const WORDINGS: &[Wording] = wordings! {
    "Anthropic, also on Bedrock and Vertex": ["prompt is too long"] in "prompt is too long: 213462 tokens > 200000 maximum";
    "Anthropic": ["exceed context limit"] in "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length";
    "Anthropic, 413": ["request_too_large"] in "request_too_large: Request exceeds the maximum size";
    "Bedrock": ["input is too long"] in "Input is too long for requested model.";
    "Bedrock, models of others": ["too many input tokens"] in "Too many input tokens. Max input tokens: 8192, request input token count: 9000";
    "OpenAI, Azure, Groq: the code": ["context_length_exceeded"] in "Bad request (context_length_exceeded)";
    "OpenAI, Responses": ["exceeds the context window"] in "Your input exceeds the context window of this model. Please adjust your input and try again.";
    "OpenAI, since GPT-5": ["input tokens exceed the configured limit"] in "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300011 tokens.";
    "OpenAI, vLLM, DeepSeek, OpenRouter": ["maximum context length"] in "This model's maximum context length is 65536 tokens. However, you requested 71234 tokens (67138 in the messages, 4096 in the completion).";
    "OpenAI: one message beyond its limit of characters": ["string too long", "content"] in "Invalid 'messages[3].content': string too long. Expected a string with maximum length 10485760, but got a string with length 11000000 instead.";
    "Cloudflare": ["context window limit"] in "5021: The estimated number of input and maximum output tokens (51234) exceeded this model context window limit (24000).";
    "Cloudflare": ["token count exceeds"] in "Requested token count exceeds the model's context of 256000 tokens.";
    "watsonx": ["cannot exceed the total tokens limit"] in "Failed to generate: the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model.";
    "Databricks": ["prompt token count", "cannot exceed"] in "prompt token count (9000) cannot exceed 8192.";
    "Snowflake": ["max tokens of", "exceeded"] in "max tokens of 32000 exceeded";
    "SiliconFlow": ["length of prompt_tokens", "must be less than"] in "length of prompt_tokens (40000) must be less than max_seq_len (32768).";
    "Volcengine": ["exceed max message tokens"] in "Total tokens of image and text exceed max message tokens";
    "Baidu": ["prompt tokens too long"] in "prompt tokens too long";
    "AI21": ["prompt has too many tokens"] in "Prompt has too many tokens";
    "llama-cpp-python": ["exceed context window"] in "Requested tokens (5900) exceed context window of 4096";
    "Zed": ["context window exceeded"] in "Context window exceeded: 120002 tokens exceeds the limit of 120000 tokens";
    "Azure": ["context length", "reduce"] in "The request exceeds the context length of the deployment. Please reduce your prompt.";
    "Gemini, Vertex": ["input token count", "exceeds the maximum"] in "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).";
    "Vertex, older models": ["exceeds the maximum number of tokens"] in "Unable to submit request because the prompt exceeds the maximum number of tokens for this model.";
    "vLLM": ["longer than the maximum model length"] in "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.";
    "vLLM": ["max_model_len"] in "User-specified max_tokens + prompt exceeds max_model_len (4096).";
    "llama.cpp": ["exceeds the available context size"] in "the request exceeds the available context size, try increasing it";
    "llama.cpp: the type": ["exceed_context_size"] in "the prompt does not fit (exceed_context_size_error)";
    "llama.cpp, 500 in the midst of an answer": ["context size", "exceeded"] in "Context size has been exceeded.";
    "Ollama": ["prompt too long", "context length"] in "prompt too long; exceeded max context length by 1021 tokens";
    "Ollama": ["input length exceeds"] in "the input length exceeds the context length";
    "LM Studio": ["greater than the context length"] in "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length.";
    "LM Studio": ["context length of only"] in "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens.";
    "LiteLLM": ["contextwindowexceedederror"] in "litellm.ContextWindowExceededError: litellm.BadRequestError: the prompt does not fit";
    "OpenRouter, other models": ["maximum allowed input length"] in "Input length 131393 exceeds the maximum allowed input length of 131040 tokens.";
    "TGI, 422": ["`inputs` tokens", "`max_new_tokens` must be"] in "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`";
    "TGI, 422": ["`inputs` must have less than"] in "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000";
    "SGLang, Together": ["longer than the model's context length"] in "The input (71234 tokens) is longer than the model's context length (65536 tokens).";
    "Mistral": ["too large for model with", "maximum context length"] in "Prompt contains 71234 tokens and 0 draft tokens, too large for model with 32768 maximum context length";
    "Groq, Cerebras": ["reduce the length of the messages"] in "Please reduce the length of the messages or completion.";
    "Cerebras": ["current length is", "while limit is"] in "Current length is 9000 while limit is 8192";
    "xAI": ["maximum prompt length"] in "This model's maximum prompt length is 131072 but the request contains 537812 tokens.";
    "Fireworks": ["model maximum context length"] in "The prompt is too long: 71234, model maximum context length: 65536";
    "Cohere": ["too many tokens"] in "too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 131000";
    "GitHub Copilot": ["token count of", "exceeds the limit of"] in "prompt token count of 71234 exceeds the limit of 65536";
    "MiniMax": ["context window exceeds limit"] in "invalid params, context window exceeds limit";
    "Kimi": ["exceeded model token limit"] in "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)";
    "Z.ai": ["prompt exceeds max length"] in "Prompt exceeds max length";
    "Z.ai: the reason": ["model_context_window_exceeded"] in "model_context_window_exceeded";
    "DashScope": ["range of input length should be"] in "Range of input length should be [1, 129024]";
    "Lambda, Nebius and others in front of vLLM": ["token limit exceeded"] in "Input token limit exceeded";
};

/// A refusal with one of these is about a rate limit, even if it mentions tokens.
const RATE: [&str; 12] = [
    "tokens per min",
    "rate limit",
    "rate_limit",
    "too many requests",
    "throttl",
    "requests per",
    "quota",
    "daily",
    "hourly",
    "monthly",
    "per day",
    "per month",
];

/// Whether a refusal is about a rate limit. Groq answers 413 to it.
fn is_rate_limit(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    RATE.iter().any(|words| said.contains(words))
}

/// Whether a refusal is about the length of the request.
pub(super) fn is_too_long(status: StatusCode, said: &str) -> bool {
    if !matches!(status.as_u16(), 400 | 413 | 422 | 500) || is_rate_limit(said) {
        return false;
    }
    status == StatusCode::PAYLOAD_TOO_LARGE
        || is_any_in(WORDINGS, said)
        || compares_tokens(said)
        || exceeds_window(said)
}

/// Whether a refusal says without numbers, in an unknown wording, that the input is too long.
fn exceeds_window(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let is_of_window = has(&["context"]) && has(&["window", "length", "size", "limit", "overflow"]);
    let is_of_input = has(&[
        "input tokens",
        "input length",
        "your prompt",
        "the prompt",
        "prompt is",
    ]);
    let is_over = has(&[
        "exceed",
        "overflow",
        "too long",
        "too large",
        "longer than",
        "larger than",
    ]);
    let is_of_answer = has(&["max_tokens:", "output tokens", "completion tokens"]);
    (is_of_window || is_of_input) && is_over && !is_of_answer
}

/// Words for the input.
const READ: [&str; 8] = [
    "input token",
    "inputs",
    "input length",
    "prompt",
    "context",
    "messages",
    "conversation",
    "sequence",
];
/// Words for exceeding a limit.
const OVER: [&str; 15] = [
    "exceed",
    "too long",
    "too large",
    "too many",
    "too big",
    "longer",
    "larger",
    "greater",
    "more than",
    "over the",
    "maximum",
    "at most",
    "limit",
    "less than",
    " > ",
];
/// Minimum number of tokens in a context window.
const LEAST_WINDOW: u64 = 512;

/// Whether a refusal contains a token count of the input and a smaller limit, in an unknown wording. A limit of only the answer
/// does not count.
fn compares_tokens(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
    let numbers = said.split(|c: char| !c.is_ascii_digit() && !matches!(c, ',' | 'k'));
    let counts = numbers.filter_map(|number| {
        let thousands = number.strip_suffix('k');
        let count: u64 = thousands.unwrap_or(number).replace(',', "").parse().ok()?;
        count.checked_mul(if thousands.is_some() { 1_000 } else { 1 })
    });
    let large = counts
        .filter(|count| *count >= LEAST_WINDOW)
        .collect::<BTreeSet<_>>();
    let counts_tokens = has(&["tokens", "token count", "token limit", "token length"]);
    counts_tokens && large.len() >= 2 && has(&OVER) && has(&READ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wording_is_found_in_its_example_and_under_each_status_that_servers_use() {
        for wording in WORDINGS {
            let said = wording.example.to_ascii_lowercase();
            let missing: Vec<_> = wording
                .words
                .iter()
                .filter(|word| !said.contains(**word))
                .collect();
            assert!(missing.is_empty(), "{}: {missing:?}", wording.source);
            for status in [400, 413, 422, 500] {
                let status = StatusCode::from_u16(status).unwrap();
                assert!(
                    is_too_long(status, wording.example),
                    "{}: {status}",
                    wording.source
                );
            }
            for status in [401, 403, 404, 429, 503, 529] {
                let status = StatusCode::from_u16(status).unwrap();
                assert!(
                    !is_too_long(status, wording.example),
                    "{}: {status}",
                    wording.source
                );
            }
        }
    }

    #[test]
    fn a_refusal_that_compares_tokens_is_one_of_length_in_any_words() {
        for said in [
            "The prompt has 41,203 tokens, the model takes 32,768 at most.",
            "Sequence of 9000 tokens is over the window (8192)",
            "total tokens 70000 of the messages > limit 65536",
            "Prompt is 131k tokens, the limit is 128k",
            "Context length exceeded",
            "Input exceeds context window",
            "exceeded the model's context limit",
            "context overflow",
            "Your prompt is too large for this model (max 32768 tokens)",
            "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
            "The input token count (9000) plus max_tokens exceeds the limit of 8193 tokens",
        ] {
            assert!(is_too_long(StatusCode::BAD_REQUEST, said), "{said}");
        }
    }

    #[test]
    fn a_limit_of_rate_is_none_of_length() {
        for said in [
            "Request too large for model `llama-4` in organization `o` service tier `on_demand` on tokens per minute (TPM): \
             Limit 6000, Requested 12011, please reduce your message size and try again.",
            "Throttling error: Too many tokens, please wait before trying again.",
            "Rate limit exceeded: too many tokens",
            "Quota exceeded for input token count",
            "Daily token limit exceeded for this account",
            "Token limit exceeded: 500000 tokens per day",
        ] {
            for status in [400, 413, 500] {
                assert!(
                    !is_too_long(StatusCode::from_u16(status).unwrap(), said),
                    "{said}"
                );
            }
        }
    }

    #[test]
    fn another_refusal_is_none_of_length() {
        for said in [
            "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64, but got a string with \
             length 70 instead.",
            "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens",
            "max_completion_tokens is too large: 262144. This model supports at most 256000 completion tokens.",
            "The requested 70000 output tokens are more than the maximum of 65536",
            "tools.0.name: String should have at most 128 characters",
            "messages.3: unexpected token at position 1024 of 2048",
            "invalid request: token expired at 1764360000, it is more than 3600 s old",
            "context_management: Extra inputs are not permitted",
            "the server had an error",
            "",
        ] {
            for status in [400, 422, 500] {
                assert!(
                    !is_too_long(StatusCode::from_u16(status).unwrap(), said),
                    "{said}"
                );
            }
        }
    }
}
