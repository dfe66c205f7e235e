//! Refusals with a client error status that the client did not cause: the model wrote something that its server could not parse,
//! or a content filter of the provider blocked it.
//!
//! The wordings were collected on 2026-11-28 from the documentation of the providers and from reports of their users.

use super::wordings::{Wording, is_any_in, wordings};

/// The server could not parse the model's output, or is not ready. A retry may succeed.
#[rustfmt::skip]
const PASSING: &[Wording] = wordings! {
    "Groq: the code": ["tool_use_failed"] in "bad request (tool_use_failed)";
    "Groq": ["failed to call a function"] in "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.";
    "Groq, of an output schema": ["json_validate_failed"] in "bad request (json_validate_failed)";
    "Groq, of an output schema": ["failed to generate json"] in "Failed to generate JSON. Please adjust your prompt.";
    "Groq: the parser of gpt-oss": ["output_parse_failed"] in "Parsing failed. The model generated output that could not be parsed. (output_parse_failed)";
    "llama.cpp, Groq, Ollama": ["failed to parse tool call"] in "Failed to parse tool call arguments as JSON";
    "Ollama": ["error parsing tool call"] in "error parsing tool call: raw='{\"a\":' err=unexpected end of JSON input";
    "Bedrock, Nova": ["invalid sequence as part of tooluse"] in "Model produced invalid sequence as part of ToolUse. Please refer to the model tool use troubleshooting guide.";
    "Bedrock, 424": ["error while processing the model"] in "The request failed due to an error while processing the model.";
    "vLLM, gpt-oss": ["unexpected tokens remaining in message header"] in "unexpected tokens remaining in message header: Some(\"to=functions\")";
    "any": ["try again later"] in "The service is busy, please try again later.";
    "any": ["temporarily unavailable"] in "The model is temporarily unavailable.";
    "any": ["currently loading"] in "Model acme/m is currently loading";
    "any": ["overloaded"] in "The model is overloaded";
};

/// A content filter of the provider blocked the request or the answer.
#[rustfmt::skip]
const FILTERED: &[Wording] = wordings! {
    "Azure": ["content management policy"] in "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.";
    "Azure, Kimi, vLLM: the code": ["content_filter"] in "bad request (content_filter)";
    "any": ["content filter"] in "The request was stopped by the content filter.";
    "Azure, behind LiteLLM": ["contentpolicyviolation"] in "litellm.ContentPolicyViolationError: AzureException";
    "Azure: the inner code": ["responsibleaipolicyviolation"] in "ResponsibleAIPolicyViolation";
    "OpenAI: the code": ["content_policy_violation"] in "Your request was rejected (content_policy_violation)";
    "OpenAI": ["violating our usage policy"] in "Invalid prompt: your prompt was flagged as potentially violating our usage policy. (invalid_prompt)";
    "OpenAI": ["rejected", "safety system"] in "Your request was rejected as a result of our safety system.";
    "Anthropic": ["blocked by content filtering policy"] in "Output blocked by content filtering policy";
    "xAI": ["violates usage guidelines"] in "Content violates usage guidelines.";
    "OpenRouter, 403": ["input was flagged"] in "openai/gpt-x requires moderation. Your input was flagged for \"violence\".";
    "DashScope": ["inappropriate content"] in "Output data may contain inappropriate content.";
    "DashScope: the code": ["data_inspection_failed"] in "bad request (data_inspection_failed)";
    "DashScope: the code": ["datainspectionfailed"] in "bad request (DataInspectionFailed)";
    "Kimi": ["considered high risk"] in "The request was rejected because it was considered high risk";
    "MiniMax": ["new_sensitive"] in "input new_sensitive (1026)";
    "Z.ai: it says why in Chinese, with words for unsafe or sensitive content": ["不安全或敏感内容"] in "系统检测到输入或生成内容可能包含不安全或敏感内容";
    "DeepSeek": ["content exists risk"] in "Content Exists Risk";
    "Bedrock": ["blocked by", "guardrail"] in "Input was blocked by the guardrail";
    "Gemini": ["prohibited_content"] in "The prompt was blocked: PROHIBITED_CONTENT";
};

/// Whether a retry may succeed in spite of the status.
pub(super) fn is_passing(said: &str) -> bool {
    is_any_in(PASSING, said)
}

/// Whether a content filter blocked the call, which counts like a refusal by the model.
pub(crate) fn is_filtered(said: &str) -> bool {
    is_any_in(FILTERED, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wording_is_found_in_its_example_and_in_one_table_alone() {
        for wording in PASSING {
            assert!(is_passing(wording.example), "{}", wording.source);
            assert!(!is_filtered(wording.example), "{}", wording.source);
        }
        for wording in FILTERED {
            assert!(is_filtered(wording.example), "{}", wording.source);
            assert!(!is_passing(wording.example), "{}", wording.source);
        }
    }

    #[test]
    fn another_refusal_is_none_of_them() {
        for said in [
            "tools.0.name: String should have at most 128 characters",
            "messages.0.content: Input should be a valid list",
            "messages: roles must alternate",
            "invalid tool call: no such tool",
            "the server had an error",
            "",
        ] {
            assert!(!is_passing(said) && !is_filtered(said), "{said}");
        }
    }
}
