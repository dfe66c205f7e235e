//! `/v1/files`: named input files for runs. Content is uploaded and downloaded piece by piece.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest as _, Request, State},
    response::{IntoResponse as _, Response},
};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_RANGE, EXPECT},
};
use sortie_api::{
    ErrorCode, File, FilePage, Refusal,
    file::{KeepArtifact, RenameFile, is_deceptive},
    limits,
};
use sortie_engine::{Stored, Upload};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat, schema::Type},
};

use crate::{
    app::App,
    kit::{
        ApiError, ApiResult, Form, Json, JsonBody, Member, Offered, PageQuery, Part, Path, Query, Wanted,
        is_json, range_not_satisfiable, too_large,
    },
};

/// Maximum bytes of a form besides the file: heads, boundaries, the other fields.
const FORM_BYTES: u64 = 64 * 1024;

// For the document only: the form is read part by part.
/// File to upload, and optionally a name for it.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the form is read by `stage_form`")]
pub(crate) struct FileForm {
    /// The content. Its `filename` is the name, where `name` is not sent.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    file: Vec<u8>,
    /// The name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of a
    /// file's id.
    #[schema(min_length = 1, max_length = 255, nullable = false, example = "orders.csv")]
    name: Option<String>,
}

// For the document only: content is sent piece by piece.
/// Bytes.
pub(crate) struct Content;

impl PartialSchema for Content {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
            .content_media_type("application/octet-stream")
            .into()
    }
}

impl ToSchema for Content {}

/// Save a file
///
/// Takes a multipart form with the field `file` and optionally the field `name`. Without `name` the file gets its
/// `filename`, without folders. The content is streamed to the storage and never changes; equal content is stored once.
///
/// Accepts JSON too, to keep an artifact of a run as a file. Nothing is copied, and the file stays when the run is
/// deleted.
#[utoipa::path(
    post, path = "/v1/files", tag = "files",
    request_body(content(
        (FileForm = "multipart/form-data", example = json!({"file": "order,total\n1,20\n", "name": "orders.csv"})),
        (KeepArtifact = "application/json", example = json!({
            "run": "run_01kafs6w1cefkstv6qr1ptb0mp", "path": "report.md", "name": "report-2026.md"
        })),
    ), description = "The file, or the artifact."),
    responses(
        (status = 201, description = "The saved file.", body = File, links(
            ("get_file" = (operation_id = "get_file", parameters(("file" = "$response.body#/id")))),
            ("get_file_content" = (operation_id = "get_file_content", parameters(("file" = "$response.body#/id")))),
            ("delete_file" = (operation_id = "delete_file", parameters(("file" = "$response.body#/id")))),
        ), example = json!({
            "id": "file_01kafs6w1cefkstv6qr1ptb0mp", "name": "orders.csv", "size": 18_204, "content_type": "text/csv",
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "created_at": "2026-11-20T21:30:00.000Z",
            "used_by": []
        })),
        (status = 409, description = "The name is taken, or the organization has reached its storage limit.", body = sortie_api::ErrorBody,
            example = json!({"error": "name: a file has it already", "code": "conflict"})),
    ),
)]
pub(crate) async fn create_file(
    State(app): State<Arc<App>>,
    who: Member,
    request: Request,
) -> ApiResult<(StatusCode, Json<File>)> {
    if is_json(request.headers()) {
        let JsonBody(wanted, _room) = JsonBody::from_request(request, &app).await?;
        let file = app.engine.keep_artifact(&who, wanted).await?;
        return Ok((StatusCode::CREATED, Json(file)));
    }
    let (parts, body) = request.into_parts();
    let mut form = Form::new(&parts.headers, body)?;
    let most = app.engine.max_file_bytes();
    let announced = announced(&parts.headers);
    let taken = if announced > most.saturating_add(FORM_BYTES) {
        Err(too_large("file", most))
    } else {
        let upload = app.engine.begin_upload(&who).await?;
        stage_form(&mut form, upload, most).await
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(refusal) => {
            // A client that waits for `100 Continue` gets the refusal instead.
            if !parts.headers.contains_key(EXPECT) {
                form.drain().await;
            }
            return Err(refusal.into());
        }
    };
    let file = app
        .engine
        .create_file(&who, taken.upload, taken.name, taken.content_type)
        .await?;
    Ok((StatusCode::CREATED, Json(file)))
}

fn announced(headers: &HeaderMap) -> u64 {
    headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok())
        .unwrap_or(0)
}

/// A form that was read to its end.
struct StagedForm {
    upload: Upload,
    name: String,
    content_type: Option<String>,
}

/// Reads a form with the field `file` and perhaps `name`, in any order, each once, and nothing else.
async fn stage_form(form: &mut Form, upload: Upload, most: u64) -> Result<StagedForm, Refusal> {
    let mut empty = Some(upload);
    let mut content = None;
    let mut name = None;
    while let Some(part) = form.next().await? {
        match part.name() {
            "file" => {
                let upload = empty
                    .take()
                    .ok_or_else(|| ErrorCode::InvalidRequest.because("file: sent twice"))?;
                let (file_name, content_type) = (part.file_name()?, part.media_type());
                let upload = stream(part, upload, most).await?;
                content = Some((upload, file_name, content_type));
            }
            "name" => {
                if name.replace(part.text(limits::FILE_NAME_BYTES).await?).is_some() {
                    return Err(ErrorCode::InvalidRequest.because("name: sent twice"));
                }
            }
            other => {
                let seen = other.chars().filter(|character| !is_deceptive(*character));
                let other: String = seen.take(100).collect();
                return Err(ErrorCode::InvalidRequest
                    .because(format!("{other}: unknown field, expected `file` and `name`")));
            }
        }
    }
    let (upload, file_name, content_type) =
        content.ok_or_else(|| ErrorCode::InvalidRequest.because("file: required"))?;
    let name = name
        .or(file_name)
        .ok_or_else(|| ErrorCode::InvalidRequest.because("name: required where file has no filename"))?;
    Ok(StagedForm {
        upload,
        name,
        content_type,
    })
}

async fn stream(mut part: Part<'_>, mut upload: Upload, most: u64) -> Result<Upload, Refusal> {
    while let Some(bytes) = part.chunk().await? {
        if bytes.len() as u64 > upload.room() {
            return Err(too_large("file", most));
        }
        upload.write(&bytes).await?;
    }
    Ok(upload)
}

/// Files as a plain list, or a page of them.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub(crate) enum FileList {
    /// Plain list, without `limit` and `cursor`.
    Recent(Vec<File>),
    /// Page, with `limit` or `cursor`.
    Page(FilePage),
}

/// List files
///
/// Lists files, newest first. Without `limit` and `cursor` the answer is an array of the 100 newest files; with either
/// it is a page; `next_cursor` is empty on the last page.
#[utoipa::path(
    get, path = "/v1/files", tag = "files",
    params(
        ("limit" = Option<i32>, Query, minimum = 1, maximum = 100, nullable = false, description = "Files on a page. Turns on pagination.", example = 20),
        ("cursor" = Option<String>, Query, nullable = false, min_length = 1, description = "`next_cursor` of the page before."),
    ),
    responses((status = 200, description = "The files: an array, or a page when `limit` or `cursor` is sent.", body = FileList, example = json!({
        "items": [{
            "id": "file_01kafs6w1cefkstv6qr1ptb0mp", "name": "orders.csv", "size": 18_204, "content_type": "text/csv",
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "created_at": "2026-11-20T21:30:00.000Z",
            "used_by": ["daily-report"]
        }],
        "next_cursor": ""
    }))),
)]
pub(crate) async fn list_files(
    State(app): State<Arc<App>>,
    who: Member,
    Query(page): Query<PageQuery>,
) -> ApiResult<Json<FileList>> {
    let list = app.cursors.list(["files".to_owned(), who.org.to_string()]);
    let store = app.engine.store();
    let mut items = store
        .list_files(who.org, page.before(&list)?, page.rows())
        .await?;
    let next_cursor = page.cut(&mut items, |file| list.after((file.created_at, file.id)));
    Ok(Json(if page.is_sent() {
        FileList::Page(FilePage { items, next_cursor })
    } else {
        FileList::Recent(items)
    }))
}

/// Get a file
///
/// Returns the record of the file, without its content.
#[utoipa::path(
    get, path = "/v1/files/{file}", tag = "files",
    params(("file" = String, Path, description = "The file's ID or name.", example = "orders.csv")),
    responses((status = 200, description = "The file.", body = File, example = json!({
        "id": "file_01kafs6w1cefkstv6qr1ptb0mp", "name": "orders.csv", "size": 18_204, "content_type": "text/csv",
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "created_at": "2026-11-20T21:30:00.000Z",
            "used_by": ["daily-report"]
    }))),
)]
pub(crate) async fn get_file(
    State(app): State<Arc<App>>,
    who: Member,
    Path(file): Path<String>,
) -> ApiResult<Json<File>> {
    Ok(Json(app.engine.get_file(who.org, &file).await?))
}

/// Download a file
///
/// Returns the content as a download. `ETag` is the SHA-256. `Range` works with one range; several are answered with
/// the whole content. Conditions are `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since` and
/// `If-Range`.
#[utoipa::path(
    get, path = "/v1/files/{file}/content", tag = "files",
    params(
        ("file" = String, Path, description = "The file's ID or name.", example = "orders.csv"),
        ("Range" = Option<String>, Header, nullable = false, description = "Range of bytes to send.", example = "bytes=0-1023"),
        ("If-None-Match" = Option<String>, Header, nullable = false, description = "Entity tag of the content that the client has."),
    ),
    responses(
        (status = 200, description = "The content.", content(
            (inline(Content) = "application/octet-stream", example = json!("order,total\n1,20\n")),
            (inline(Content) = "*/*", example = json!("order,total\n1,20\n")),
        )),
        (status = 206, description = "The requested bytes.", content(
            (inline(Content) = "application/octet-stream", example = json!("order")),
            (inline(Content) = "*/*", example = json!("order")),
        )),
        (status = 304, description = "The client has the content already."),
        (status = 412, description = "The content does not match `If-Match`.", body = sortie_api::ErrorBody),
        (status = 416, description = "The requested bytes are beyond the end of the content.", body = sortie_api::ErrorBody),
    ),
)]
pub(crate) async fn get_file_content(
    State(app): State<Arc<App>>,
    who: Member,
    Path(file): Path<String>,
    (method, headers): (Method, HeaderMap),
) -> ApiResult<Response> {
    let stored = app.engine.stored_file(who.org, &file).await?;
    send(&app, stored, &method, &headers).await
}

/// Answers with the content, or with as much of it as the headers ask for.
pub(super) async fn send(
    app: &App,
    stored: Stored,
    method: &Method,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let offered = Offered {
        name: stored.name.clone(),
        size: stored.size,
        sha256: stored.sha256,
        content_type: stored.content_type.clone(),
        created_at: stored.created_at,
    };
    let wanted = offered.wanted(method, headers)?;
    let range = match &wanted {
        Wanted::Nothing => None,
        Wanted::Whole => Some(0..stored.size),
        Wanted::Part(part) => Some(part.clone()),
        Wanted::Beyond => {
            let mut refusal = ApiError::from(range_not_satisfiable(stored.size)).into_response();
            let range = HeaderValue::from_str(&format!("bytes */{}", stored.size));
            refusal
                .headers_mut()
                .insert(CONTENT_RANGE, range.map_err(Refusal::internal)?);
            return Ok(refusal);
        }
    };
    let body = match range {
        Some(range) if method != Method::HEAD => {
            let content = app.engine.read_content(&stored, range).await?;
            Body::from_stream(futures_util::TryStreamExt::inspect_err(content, |error| {
                tracing::error!(%error, "download aborted");
            }))
        }
        Some(_) | None => Body::empty(),
    };
    Ok(offered.response(&wanted, body)?)
}

/// Rename a file
///
/// Keeps the id and the content. Runs that were accepted before still find the file.
#[utoipa::path(
    patch, path = "/v1/files/{file}", tag = "files",
    params(("file" = String, Path, description = "The file's ID or name.", example = "orders.csv")),
    request_body(content = RenameFile, description = "The new name.", example = json!({"name": "orders-2026.csv"})),
    responses(
        (status = 200, description = "The file under its new name.", body = File, example = json!({
            "id": "file_01kafs6w1cefkstv6qr1ptb0mp", "name": "orders-2026.csv", "size": 18_204, "content_type": "text/csv",
            "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "created_at": "2026-11-20T21:30:00.000Z",
            "used_by": ["daily-report"]
        })),
        (status = 409, description = "The name is taken.", body = sortie_api::ErrorBody,
            example = json!({"error": "name: a file has it already", "code": "conflict"})),
    ),
)]
pub(crate) async fn rename_file(
    State(app): State<Arc<App>>,
    who: Member,
    Path(file): Path<String>,
    JsonBody(request, _room): JsonBody<RenameFile>,
) -> ApiResult<Json<File>> {
    let renamed = app.engine.rename_file(&who, &file, &request.name).await?;
    Ok(Json(renamed))
}

/// Delete a file
///
/// Deletes the file. Runs that name it and have not started yet fail when they start; active runs have a copy. The
/// content is deleted some time later, unless another file or artifact has the same content.
#[utoipa::path(
    delete, path = "/v1/files/{file}", tag = "files",
    params(("file" = String, Path, description = "The file's ID or name.", example = "orders.csv")),
    responses((status = 204, description = "The file was deleted.")),
)]
pub(crate) async fn delete_file(
    State(app): State<Arc<App>>,
    who: Member,
    Path(file): Path<String>,
) -> ApiResult<StatusCode> {
    app.engine.delete_file(&who, &file).await?;
    Ok(StatusCode::NO_CONTENT)
}
