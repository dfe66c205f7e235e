//! Runs and their artifacts as resources.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::TryStreamExt as _;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use sortie_api::{Artifact, ErrorCode, Refusal, Run, RunId};
use sortie_engine::Stored;
use sortie_store::runs::RunFilter;

use super::McpServer;
use crate::kit::{FromQuery as _, PageQuery, Pairs};

const SCHEME: &str = "sortie://runs/";
const JSON: &str = "application/json";

/// Number of runs on a page of resources.
const PAGE: u32 = 50;

/// Largest artifact that is read as a resource, in bytes. `read_artifact` reads a larger one in parts.
const RESOURCE_BYTES: u64 = 4 << 20;

/// Characters of a path that its URI encodes.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Resource of a URI.
#[derive(Debug, PartialEq, Eq)]
enum ResourceName {
    Run(RunId),
    Artifact(RunId, String),
}

impl ResourceName {
    fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix(SCHEME)?;
        let Some((run, below)) = rest.split_once('/') else {
            return Some(Self::Run(rest.parse().ok()?));
        };
        let path = below.strip_prefix("artifacts/")?;
        let path = percent_decode_str(path).decode_utf8().ok()?;
        Some(Self::Artifact(run.parse().ok()?, path.into_owned()))
    }
}

/// Returns the templates of the URIs.
pub(super) fn templates() -> ListResourceTemplatesResult {
    ListResourceTemplatesResult::with_all_items(vec![
        ResourceTemplate::new(format!("{SCHEME}{{run}}"), "run")
            .with_title("Run")
            .with_description("A run: its status, output, cost and artifacts.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{SCHEME}{{run}}/artifacts/{{+path}}"), "artifact")
            .with_title("Artifact")
            .with_description("A file that a run left under outputs/."),
    ])
}

/// Returns the URI of an artifact.
pub(super) fn uri_of(run: RunId, path: &str) -> String {
    format!("{SCHEME}{run}/artifacts/{}", utf8_percent_encode(path, PATH))
}

/// Makes the link to an artifact.
pub(super) fn link(run: RunId, artifact: &Artifact) -> Resource {
    let link = Resource::new(uri_of(run, &artifact.path), artifact.path.clone())
        .with_mime_type(artifact.content_type.clone());
    match u64::try_from(artifact.size) {
        Ok(size) => link.with_size(size),
        Err(_) => link,
    }
}

fn of_run(run: Run) -> Resource {
    let description = match run.workflow {
        Some(workflow) => format!("{} of {workflow}, {}", run.created_at, run.status),
        None => format!("{}, {}", run.created_at, run.status),
    };
    let resource = Resource::new(format!("{SCHEME}{}", run.id), run.id.to_string())
        .with_description(description)
        .with_mime_type(JSON);
    match run.title {
        Some(title) => resource.with_title(title),
        None => resource,
    }
}

impl McpServer {
    /// Lists runs, newest first.
    pub(super) async fn resources(&self, cursor: Option<String>) -> Result<ListResourcesResult, Refusal> {
        let query = cursor.map_or_else(String::new, |cursor| {
            format!("cursor={}", utf8_percent_encode(&cursor, PATH))
        });
        let page = PageQuery::<PAGE>::from_query(&Pairs::of(&query))?;
        let (runs, next) = self.runs(RunFilter::default(), &page).await?;
        let mut list = ListResourcesResult::with_all_items(runs.into_iter().map(of_run).collect());
        list.next_cursor = next;
        Ok(list)
    }

    /// Reads a run or an artifact.
    ///
    /// # Errors
    /// `NotFound` for a URI that names neither. `PayloadTooLarge` for an artifact of more than [`RESOURCE_BYTES`].
    pub(super) async fn resource(&self, uri: &str) -> Result<ReadResourceResult, Refusal> {
        let named = ResourceName::parse(uri).ok_or_else(Refusal::not_found)?;
        let contents = match named {
            ResourceName::Run(run) => {
                let run = self
                    .app
                    .engine
                    .look_at_run(self.who.org, run, Duration::ZERO)
                    .await?;
                let text = serde_json::to_string(&run).map_err(Refusal::internal)?;
                ResourceContents::text(text, uri).with_mime_type(JSON)
            }
            ResourceName::Artifact(run, path) => {
                let stored = self.app.engine.stored_artifact(self.who.org, run, &path).await?;
                if stored.size > RESOURCE_BYTES {
                    return Err(ErrorCode::PayloadTooLarge.because(format!(
                        "the file has {} bytes, and a resource may have {RESOURCE_BYTES}: read it in parts with read_artifact",
                        stored.size
                    )));
                }
                let bytes = self.bytes(&stored, 0, RESOURCE_BYTES).await?;
                let contents = match String::from_utf8(bytes) {
                    Ok(text) => ResourceContents::text(text, uri),
                    Err(error) => ResourceContents::blob(STANDARD.encode(error.as_bytes()), uri),
                };
                contents.with_mime_type(stored.content_type)
            }
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }

    /// Reads at most `most` bytes of some content from `offset` on.
    pub(super) async fn bytes(&self, stored: &Stored, offset: u64, most: u64) -> Result<Vec<u8>, Refusal> {
        let begin = offset.min(stored.size);
        let end = begin.saturating_add(most).min(stored.size);
        let length = usize::try_from(end - begin).map_err(Refusal::internal)?;
        // The bytes, and their text or Base64 in the answer.
        self.keep(self.app.bodies.answer_room(length.saturating_mul(3)).await?);
        let content = self.app.engine.read_content(stored, begin..end).await?;
        let bytes = content.try_fold(Vec::with_capacity(length), async |mut all, piece| {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        bytes.await.map_err(Refusal::internal)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sortie_api::{Sha256, Timestamp};

    use super::*;

    fn run() -> RunId {
        RunId::new(Timestamp::from_micros(1), [7; 10])
    }

    proptest! {
        #[test]
        fn the_link_to_an_artifact_names_it(path in "[^\u{0}]{1,40}") {
            let artifact = Artifact {
                path: path.clone(),
                size: 1,
                sha256: Sha256::new([0; 32]),
                content_type: "text/plain".to_owned(),
            };
            let uri = link(run(), &artifact).uri;
            prop_assert_eq!(ResourceName::parse(&uri), Some(ResourceName::Artifact(run(), path)));
        }

        #[test]
        fn any_text_is_a_name_or_none(text in any::<String>()) {
            let _no_panic = ResourceName::parse(&format!("{SCHEME}{text}"));
        }
    }

    #[test]
    fn other_uris_name_nothing() {
        let run = run();
        assert_eq!(
            ResourceName::parse(&format!("{SCHEME}{run}")),
            Some(ResourceName::Run(run))
        );
        for uri in [
            String::new(),
            "file:///etc/passwd".to_owned(),
            SCHEME.to_owned(),
            format!("{SCHEME}{run}/"),
            format!("{SCHEME}{run}/events"),
            format!("{SCHEME}run_x/artifacts/a"),
            format!("{SCHEME}{run}/artifacts/%ff"),
        ] {
            assert_eq!(ResourceName::parse(&uri), None, "{uri}");
        }
    }
}
