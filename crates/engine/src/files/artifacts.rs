//! Artifacts of runs: their list, their content, and saving one as a file.

use sortie_api::{Artifact, ErrorCode, File, OrgId, Refusal, RunId, file::KeepArtifact};
use sortie_store::{access::Caller, runs::KeptArtifact};

use crate::{
    Engine,
    files::saved::{Stored, named},
};

impl Engine {
    /// Returns the artifacts of a run, by path. There are none before the run has a terminal status.
    ///
    /// # Errors
    /// `NotFound` if there is no such run.
    pub async fn run_artifacts(&self, org: OrgId, run: RunId) -> Result<Vec<Artifact>, Refusal> {
        let kept = self.store().run_artifacts(org, run).await?.kept;
        Ok(kept.into_iter().map(|kept| kept.artifact).collect())
    }

    /// Returns the description of an artifact's content. Its name is the last part of the path.
    ///
    /// # Errors
    /// `NotFound` if there is no such run, or the run has no such artifact.
    pub async fn stored_artifact(&self, org: OrgId, run: RunId, path: &str) -> Result<Stored, Refusal> {
        let artifacts = self.store().run_artifacts(org, run).await?;
        let is_wanted = |kept: &KeptArtifact| kept.artifact.path == path;
        let KeptArtifact { artifact, blob } = artifacts
            .kept
            .into_iter()
            .find(is_wanted)
            .ok_or(Refusal::not_found())?;
        let name = artifact.path.rsplit('/').next().unwrap_or_default();
        Ok(Stored {
            org,
            blob,
            name: name.to_owned(),
            size: u64::try_from(artifact.size).map_err(Refusal::internal)?,
            sha256: artifact.sha256,
            content_type: artifact.content_type,
            created_at: artifacts
                .finished_at
                .ok_or_else(|| Refusal::internal(format!("{run} has artifacts but no finish time")))?,
        })
    }

    /// Saves an artifact as a file. The file refers to the same content and outlives the run; nothing is copied.
    ///
    /// # Errors
    /// `InvalidRequest` for a name that breaks a rule, and for a run or a path that does not exist. `Conflict` if the name is
    /// taken.
    pub async fn keep_artifact(&self, caller: &Caller, wanted: KeepArtifact) -> Result<File, Refusal> {
        let KeepArtifact { run, path, name } = wanted;
        named(&name)?;
        let stored = match self.stored_artifact(caller.org, run, &path).await {
            Err(error) if error.code == ErrorCode::NotFound => {
                let rule = format!("path: the run {run} has no such artifact");
                return Err(ErrorCode::InvalidRequest.because(rule));
            }
            found => found?,
        };
        let content = (stored.blob, stored.sha256, stored.size);
        self.name_content(caller, content, name, Some(stored.content_type))
            .await
    }
}
