//! Stop reasons of all protocols.
//!
//! An unknown reason may mean that the answer is incomplete, so it is a failure and the call is retried.
//!
//! Collected on 2026-11-28 from the documentation of the providers, and from the table in Sim (`simstudioai/sim`, pull request
//! 6302).

use http::StatusCode;
use sortie_agent::model::StopReason;

use crate::answer::Failure;

/// Returns the meaning of a reason. `None` if it means that the answer is not finished.
pub(crate) fn reason(reason: &str) -> Result<Option<StopReason>, Failure> {
    let name = reason.trim().to_ascii_lowercase().replace(['-', ' '], "_");
    Ok(Some(match name.as_str() {
        // Servers can state in each chunk that it is not the last.
        "" | "null" | "none" | "not_finished" | "in_progress" | "finish_reason_unspecified" => return Ok(None),
        "stop" | "end_turn" | "stop_sequence" | "stop_token" | "eos" | "eos_token" | "eot" | "end" | "complete" | "completed"
        | "finished" | "done" | "success" | "normal" => StopReason::EndTurn,
        // A token that ended the answer, such as `<|eot_id|>` or `</s>`.
        token if token.starts_with('<') => StopReason::EndTurn,
        "tool_use" | "tool_call" | "tool_calls" | "function_call" | "function_calls" => StopReason::ToolUse,
        "length" | "max_tokens" | "max_output_tokens" | "max_completion_tokens" | "max_length" | "model_length" | "token_limit"
        | "model_context_window_exceeded" | "context_window_exceeded" | "context_length_exceeded" | "truncated"
        // The provider interrupted a long turn, which another call continues.
        | "pause_turn" => StopReason::MaxTokens,
        "refusal" | "content_filter" | "content_filtered" | "sensitive" | "safety" | "recitation" | "language" | "blocklist"
        | "prohibited_content" | "spii" | "image_safety" | "image_prohibited_content" | "image_recitation" | "model_armor"
        | "error_toxic" | "guardrail_intervened" | "guardrails" | "moderation" | "blocked" => StopReason::Refusal,
        "error" | "abort" | "aborted" | "cancelled" | "canceled" | "timeout" | "network_error" | "server_error"
        | "internal_error" | "overloaded" | "insufficient_system_resource" => {
            let said = format!("the answer was broken off: {reason}");
            return Err(Failure::Reported(StatusCode::INTERNAL_SERVER_ERROR, said));
        }
        // `endTurn`, `maxTokens`: equivalent to the same words in snake case.
        _ if reason.contains(char::is_lowercase) && reason.contains(char::is_uppercase) => {
            return self::reason(&with_lines(reason));
        }
        // `malformed_function_call`, `unexpected_tool_call`, `other`, and unknown reasons.
        _ => return Err(Failure::Garbled(format!("the model ended with {reason}"))),
    }))
}

/// Converts a name such as `endTurn` to `end_turn`.
fn with_lines(name: &str) -> String {
    let mut lined = String::new();
    for letter in name.trim().chars() {
        if letter.is_uppercase() && !lined.is_empty() {
            lined.push('_');
        }
        lined.extend(letter.to_lowercase());
    }
    lined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_known_or_a_failure() {
        for (names, expected) in [
            (
                "stop STOP endTurn EndTurn stopSequence end_turn stop_sequence stop-sequence eos eos_token </s> <|eot_id|> COMPLETE",
                StopReason::EndTurn,
            ),
            (
                "tool_use toolUse toolCalls tool_calls tool-calls function_call",
                StopReason::ToolUse,
            ),
            (
                "length max_tokens MAX_TOKENS model_length max_output_tokens model_context_window_exceeded pause_turn",
                StopReason::MaxTokens,
            ),
            (
                "refusal content_filter content-filter sensitive SAFETY SPII model_armor",
                StopReason::Refusal,
            ),
        ] {
            for name in names.split_whitespace() {
                assert_eq!(reason(name), Ok(Some(expected)), "{name}");
            }
        }
        for name in [
            "",
            " ",
            "null",
            "NONE",
            "not_finished",
            "FINISH_REASON_UNSPECIFIED",
        ] {
            assert_eq!(reason(name), Ok(None));
        }
        for name in ["error", "network_error", "insufficient_system_resource", "abort"] {
            assert!(matches!(reason(name), Err(Failure::Reported(..))), "{name}");
        }
        for name in [
            "OTHER",
            "MALFORMED_FUNCTION_CALL",
            "repetition_truncation",
            "unknown",
            "something_new",
            "stopped?",
        ] {
            assert!(matches!(reason(name), Err(Failure::Garbled(_))), "{name}");
        }
    }
}
