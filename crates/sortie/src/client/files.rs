//! Saved files: their records, and their content in and out, piece by piece.

use std::path::Path;

use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Method, RequestBuilder, header};
use sortie_api::{
    File, FileId, FilePage,
    file::{RenameFile, check_name, is_deceptive},
    limits, plain,
};
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::{Client, Content, rate_limit::wait_out};
use crate::{
    args::FileRef,
    failure::{Failure, Result},
};

/// Bytes of a file that are read at once.
const PIECE: usize = 256 * 1024;

impl Client {
    /// The newest files, page by page, at most `limit`.
    pub(crate) async fn list_files(&self, limit: u32) -> Result<Vec<File>> {
        let mut files: Vec<File> = Vec::new();
        let mut cursor = String::new();
        loop {
            let left = limit.saturating_sub(u32::try_from(files.len()).unwrap_or(u32::MAX));
            if left == 0 {
                return Ok(files);
            }
            let limit = left.min(limits::PAGE);
            let after = if cursor.is_empty() {
                String::new()
            } else {
                format!("&cursor={cursor}")
            };
            let page: FilePage = self.get(&format!("v1/files?limit={limit}{after}")).await?;
            files.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(files);
            }
            cursor = page.next_cursor;
        }
    }

    pub(crate) async fn get_file(&self, file: &FileRef) -> Result<File> {
        let request = self.request(Method::GET, &file_path(file, "")?)?;
        self.read(self.send(request).await?).await
    }

    /// The content, to be read from the answer.
    pub(crate) async fn file_content(&self, file: &FileRef) -> Result<Content> {
        let request = self.request(Method::GET, &file_path(file, "content")?)?;
        Ok(Content(self.send(request).await?))
    }

    pub(crate) async fn rename_file(&self, file: &FileRef, name: String) -> Result<File> {
        let request = self.request(Method::PATCH, &file_path(file, "")?)?;
        self.read(self.send(request.json(&RenameFile { name })).await?)
            .await
    }

    pub(crate) async fn delete_file(&self, file: &FileRef) -> Result<()> {
        let request = self.request(Method::DELETE, &file_path(file, "")?)?;
        self.send(request).await.map(drop)
    }

    /// Saves a file of this machine under a name. It is read while it is sent.
    pub(crate) async fn upload(&self, path: &Path, name: &str) -> Result<File> {
        loop {
            let request = self.upload_request(path, name).await?;
            match self.send_once(request).await {
                Ok(response) => return self.read(response).await,
                Err(refusal) => wait_out(refusal).await?,
            }
        }
    }

    /// Makes the request of an upload, whose body is read from the file.
    async fn upload_request(&self, path: &Path, name: &str) -> Result<RequestBuilder> {
        let wrong = |what: String| Failure::usage(format!("{}: {what}", path.display()));
        check_name(name).map_err(|rule| wrong(format!("the name {name:?} {rule}")))?;
        let file = tokio::fs::File::open(path)
            .await
            .map_err(|error| wrong(plain::io(&error)))?;
        let found = file.metadata().await.map_err(|error| wrong(plain::io(&error)))?;
        if !found.is_file() {
            return Err(wrong("not a regular file".to_owned()));
        }
        let form = Form::new(name)?;
        let length = form.length(found.len());
        Ok(self
            .request(Method::POST, "v1/files")?
            .header(header::CONTENT_TYPE, form.content_type())
            .header(header::CONTENT_LENGTH, length)
            .body(form.body(file, found.len())))
    }
}

/// `v1/files/…`, the name encoded.
fn file_path(file: &FileRef, below: &str) -> Result<String> {
    let wrong = || Failure::internal("the address of the engine takes no path");
    let mut url: Url = "http://host/v1/files/".parse().map_err(|_| wrong())?;
    let mut segments = url.path_segments_mut().map_err(|()| wrong())?;
    segments.pop_if_empty().push(file.as_str());
    if !below.is_empty() {
        segments.push(below);
    }
    drop(segments);
    Ok(url.path().trim_start_matches('/').to_owned())
}

/// A form with a name and a file.
struct Form {
    boundary: String,
    head: Bytes,
    tail: Bytes,
}

impl Form {
    fn new(name: &str) -> Result<Self> {
        let random = getrandom::u64()
            .and_then(|first| Ok((first, getrandom::u64()?)))
            .map_err(|error| Failure::internal(format!("the kernel gives no random bytes: {error}")))?;
        let boundary = format!("sortie-{:016x}{:016x}", random.0, random.1);
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n{name}\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        Ok(Self {
            boundary,
            head: head.into(),
            tail: tail.into(),
        })
    }

    fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    fn length(&self, content: u64) -> u64 {
        content
            .saturating_add(self.head.len() as u64)
            .saturating_add(self.tail.len() as u64)
    }

    /// The form around the first `length` bytes of the file. A file that became shorter meanwhile breaks the request.
    fn body(self, file: tokio::fs::File, length: u64) -> Body {
        let content = stream::try_unfold((file, length), |(mut file, left)| async move {
            let wanted = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let mut piece = vec![0; wanted];
            let read = if wanted == 0 {
                0
            } else {
                file.read(&mut piece).await?
            };
            if read == 0 {
                return Ok::<_, std::io::Error>(None);
            }
            piece.truncate(read);
            Ok(Some((
                Bytes::from(piece),
                (file, left.saturating_sub(read as u64)),
            )))
        });
        let (head, tail) = (self.head, self.tail);
        let all = futures_util::StreamExt::chain(stream::once(async { Ok(head) }), content);
        Body::wrap_stream(futures_util::StreamExt::chain(
            all,
            stream::once(async { Ok(tail) }),
        ))
    }
}

/// A name for a file that only one run is to read.
pub(crate) fn passing_name(path: &Path) -> Result<String> {
    let random = getrandom::u64()
        .map_err(|error| Failure::internal(format!("the kernel gives no random bytes: {error}")))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let kept: String = name
        .chars()
        .filter(|character| !is_deceptive(*character))
        .take(50)
        .collect();
    Ok(format!("{random:016x}-{kept}"))
}

/// The ids of files as what names them.
pub(crate) fn refs(ids: &[FileId]) -> impl Iterator<Item = FileRef> {
    ids.iter().copied().map(FileRef::from)
}
