//! A tool with a result that the call chooses.

use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use sortie_agent::{
    ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, Tool, ToolError},
};
use sortie_api::Micros;

/// An additional tool of the run, which remembers its calls and returns the requested results.
pub(crate) struct Probe {
    pub(crate) name: &'static str,
    pub(crate) order: Order,
    pub(crate) effect: Effect,
    pub(crate) price: Micros,
    pub(crate) calls: Mutex<Vec<u32>>,
}

#[derive(serde::Deserialize)]
struct Wish {
    n: u32,
    #[serde(default)]
    fails: bool,
    /// Whether the call fails before anything is sent.
    #[serde(default)]
    unsent: bool,
    #[serde(default)]
    seconds: u64,
    #[serde(default)]
    bytes: usize,
    #[serde(default)]
    text: String,
    /// Pictures of the result, in base64.
    #[serde(default)]
    pictures: Vec<String>,
}

impl Probe {
    pub(crate) fn new(name: &'static str, order: Order, effect: Effect) -> Self {
        Self {
            name,
            order,
            effect,
            price: Micros::ZERO,
            calls: Mutex::default(),
        }
    }

    /// The `n` of each call that was begun.
    pub(crate) fn calls(&self) -> Vec<u32> {
        self.calls.lock().clone()
    }
}

impl Tool for Probe {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: self.name,
            description: "",
            parameters: "{}",
        }
    }

    fn order(&self) -> Order {
        self.order
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        self.effect
    }

    fn price(&self) -> Micros {
        self.price
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let wish: Wish =
                serde_json::from_str(raw.get()).map_err(|error| ToolError::NotSent(error.to_string()))?;
            self.calls.lock().push(wish.n);
            tokio::time::sleep(Duration::from_secs(wish.seconds)).await;
            if wish.unsent {
                return Err(ToolError::NotSent(format!("{} sent nothing", wish.n)));
            }
            if wish.fails {
                return Err(ToolError::ToModel(format!("{} failed {}", wish.n, wish.text)));
            }
            let mut media = context.result_media();
            let labels = wish.pictures.iter().fold(String::new(), |labels, picture| {
                labels + "[" + &media.take(picture) + "]\n"
            });
            let padding = "x".repeat(wish.bytes);
            Ok(media.with_text(format!(
                "{labels}{} did {}{}{padding}",
                self.name, wish.n, wish.text
            )))
        })
    }
}
