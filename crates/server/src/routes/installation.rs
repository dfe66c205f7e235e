//! Extractor for admins who manage the nodes, the master keys and the license.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use sortie_api::ErrorCode;

use crate::{
    app::App,
    kit::{Admin, ApiError, ApiResult},
};

/// Admin of the only organization of the database. Nodes, master keys and the license serve every organization, so that with
/// a second one they are the operator's alone.
pub(crate) struct InstallationAdmin(pub(crate) Admin);

impl FromRequestParts<Arc<App>> for InstallationAdmin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> ApiResult<Self> {
        let admin = Admin::from_request_parts(parts, app).await?;
        if app.engine.has_several_organizations().await? {
            return Err(ErrorCode::Forbidden.because(
                "the database has several organizations: nodes, master keys and the license are the operator's, who uses a \
                 hosted node",
            ).into());
        }
        Ok(Self(admin))
    }
}
