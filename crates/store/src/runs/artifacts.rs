//! Artifacts of a run: written with its final status, read with the run, and the references to their content.
//!
//! The part that clients see is one text in a separate row, so reading a run stays one look-up. The count in the row of the
//! run says whether it has artifacts. A row of `artifact_blob` for each blob of a run keeps the content.

use serde::{Deserialize, Serialize};
use sortie_api::{Artifact, BlobId, OrgId, RunId, Timestamp};

use crate::{
    Error, Result, Store,
    db::{Json, Stmt, row, select, vals},
    files::blobs::json,
    runs::Fence,
};

/// Artifact with content that is already written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptArtifact {
    /// Artifact as clients see it.
    #[serde(flatten)]
    pub artifact: Artifact,
    /// Blob with the content.
    pub blob: BlobId,
}

/// Artifacts that a run ends with.
#[derive(Clone, Debug)]
pub struct NewArtifacts {
    /// Artifacts, ordered by path.
    pub kept: Vec<KeptArtifact>,
    /// Time at which the sweep checks their content again.
    pub check_at: Timestamp,
}

/// Artifacts of a run, with the time of its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunArtifacts {
    /// End of the run; `None` before it ends.
    pub finished_at: Option<Timestamp>,
    /// Artifacts, ordered by path.
    pub kept: Vec<KeptArtifact>,
}

/// Column of the artifacts of the run `r`, NULL if it has none.
pub(super) const ARTIFACTS: &str = "CASE WHEN r.artifact_count > 0 \
    THEN (SELECT a.artifacts FROM run_artifacts a WHERE a.run_id = r.id) END";

row! {
    struct ArtifactsRow {
        finished_at: Option<Timestamp> = "r.finished_at",
        kept: Option<Json<Vec<KeptArtifact>>> = ARTIFACTS,
    }
}

impl Store {
    /// Returns the artifacts of a run, ordered by path, with their blobs.
    pub async fn run_artifacts(&self, org: OrgId, id: RunId) -> Result<RunArtifacts> {
        let row: ArtifactsRow = self
            .db
            .read(move |tx| {
                tx.read_one(
                    select!(ArtifactsRow, " FROM run r WHERE r.id = $2 AND r.org_id = $1"),
                    vals![org, id],
                )
            })
            .await?;
        Ok(RunArtifacts {
            finished_at: row.finished_at,
            kept: row.kept.unwrap_or_default().0,
        })
    }
}

/// Parameters of the statements of [`insert`].
pub(super) struct Texts {
    artifacts: String,
    blobs: String,
    /// Number of different blobs.
    count: u64,
    check_at: Timestamp,
}

impl Texts {
    pub(super) fn new(new: &NewArtifacts) -> Result<Self> {
        let mut blobs: Vec<BlobId> = new.kept.iter().map(|kept| kept.blob).collect();
        blobs.sort_unstable();
        blobs.dedup();
        Ok(Self {
            artifacts: serde_json::to_string(&new.kept).map_err(|error| Error::Corrupt(error.to_string()))?,
            blobs: json(&blobs)?,
            count: u64::try_from(blobs.len()).unwrap_or(u64::MAX),
            check_at: new.check_at,
        })
    }
}

/// Statements that record artifacts. The first one defers the check of all their blobs, as `blobs::defer_check` does for
/// one, and its rows are for `blobs::count_again`. If a blob has become pending delete, the failure is permanent, so that
/// the worker does not retry the end of the run for ever.
pub(super) fn insert(fence: Fence, last_event: i64, texts: &Texts) -> [Stmt<'_>; 3] {
    let run = fence.run;
    [
        Stmt::new(
            "UPDATE blob SET check_at = $3 WHERE id {IN}SELECT value FROM {JSON_EACH}($2){END} \
             AND org_id = (SELECT r.org_id FROM run r WHERE r.id = $1) AND doomed_at IS NULL RETURNING id, counted",
            vals![run, texts.blobs.as_str(), texts.check_at],
        )
        .exactly(
            texts.count,
            Error::Conflict("the content of an artifact is pending deletion"),
        ),
        Stmt::new(
            "INSERT INTO run_artifacts (run_id, artifacts) \
             {GUARDED}VALUES (CAST($1 AS TEXT), CAST($4 AS TEXT)){BY_FENCE}",
            vals![run, fence.attempt, last_event, texts.artifacts.as_str()],
        )
        .exactly(1, Error::Fenced),
        Stmt::new(
            "INSERT INTO artifact_blob (run_id, blob_id) \
             {GUARDED}SELECT CAST($1 AS TEXT), value FROM {JSON_EACH}($4){BY_FENCE}",
            vals![run, fence.attempt, last_event, texts.blobs.as_str()],
        ),
    ]
}

/// Statement that defers the check of the blobs of the runs `ids`, so that the sweep checks them again, and returns their
/// ids. It comes before the references of these runs are deleted.
pub(super) fn defer_checks(ids: &str, check_at: Timestamp) -> Stmt<'_> {
    Stmt::new(
        "UPDATE blob SET check_at = $2 WHERE id {IN}SELECT a.blob_id FROM artifact_blob a \
         WHERE a.run_id {IN}SELECT value FROM {JSON_EACH}($1){END}{END} RETURNING id",
        vals![ids, check_at],
    )
}
