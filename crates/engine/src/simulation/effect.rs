//! A tool with calls that have an effect outside of the run.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, ToolError, arguments_of},
};
use sortie_api::Micros;
use sortie_store::runs::Fence;

use super::witness::Witness;

/// The tool of one attempt.
pub(super) fn outside(fence: Fence, witness: &Witness) -> Arc<dyn Tool> {
    Arc::new(Outside {
        fence,
        witness: witness.clone(),
    })
}

struct Outside {
    fence: Fence,
    witness: Witness,
}

/// Number of the effect that a call has.
#[derive(Deserialize)]
struct Arguments {
    number: u32,
    /// Duration of the call.
    takes_ms: u64,
}

impl Tool for Outside {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "effect",
            description: "Has an effect.",
            parameters: r#"{"type":"object","properties":{"number":{"type":"integer"},"takes_ms":{"type":"integer"}}}"#,
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, _: &RawValue) -> Effect {
        Effect::Outside
    }

    fn price(&self) -> Micros {
        Micros::new(10).unwrap_or_default()
    }

    fn call<'a>(
        &'a self,
        arguments: Box<RawValue>,
        _: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let Arguments { number, takes_ms } = arguments_of(&self.definition(), &arguments)?;
            self.witness.effect(self.fence, number);
            tokio::time::sleep(Duration::from_millis(takes_ms)).await;
            Ok(ToolContent::Text(number.to_string()))
        })
    }
}
