//! The artifacts of runs for clients: which there are, their content, and one that becomes a saved file.

use sortie_api::{Artifact, File, OrgId, RunId, file::KeepArtifact};
use sortie_store::KeptArtifact;

use crate::{
    Engine,
    error::Error,
    files::saved::{Stored, named},
    kit::caller::Caller,
};

impl Engine {
    /// The artifacts of a run, by path: none before it is final.
    ///
    /// # Errors
    /// `NotFound` where there is no such run.
    pub async fn run_artifacts(&self, org: OrgId, run: RunId) -> Result<Vec<Artifact>, Error> {
        let kept = self.store().run_artifacts(org, run).await?.kept;
        Ok(kept.into_iter().map(|kept| kept.artifact).collect())
    }

    /// What is needed to offer the content of an artifact, under the last part of its path.
    ///
    /// # Errors
    /// `NotFound` where there is no such run, or the run has no such artifact.
    pub async fn stored_artifact(&self, org: OrgId, run: RunId, path: &str) -> Result<Stored, Error> {
        let artifacts = self.store().run_artifacts(org, run).await?;
        let is_wanted = |kept: &KeptArtifact| kept.artifact.path == path;
        let KeptArtifact { artifact, blob } = artifacts
            .kept
            .into_iter()
            .find(is_wanted)
            .ok_or(Error::NotFound)?;
        let name = artifact.path.rsplit('/').next().unwrap_or_default();
        Ok(Stored {
            org,
            blob,
            name: name.to_owned(),
            size: u64::try_from(artifact.size).map_err(|error| Error::Internal(error.to_string()))?,
            sha256: artifact.sha256,
            content_type: artifact.content_type,
            created_at: artifacts
                .finished_at
                .ok_or_else(|| Error::Internal(format!("{run} has artifacts and no end")))?,
        })
    }

    /// Saves an artifact as a file, on the same content: nothing is copied, and the file outlives the run.
    ///
    /// # Errors
    /// `Invalid` for a name that breaks a rule, and for a run or a path that is not there; `Conflict` for a name that is
    /// taken.
    pub async fn keep_artifact(&self, caller: &Caller, wanted: KeepArtifact) -> Result<File, Error> {
        let KeepArtifact { run, path, name } = wanted;
        named(&name)?;
        let stored = match self.stored_artifact(caller.org, run, &path).await {
            Err(Error::NotFound) => {
                let rule = format!("path: the run {run} has no such artifact");
                return Err(Error::Invalid(rule));
            }
            found => found?,
        };
        let content = (stored.blob, stored.sha256, stored.size);
        self.name_content(caller, content, name, Some(stored.content_type))
            .await
    }
}
