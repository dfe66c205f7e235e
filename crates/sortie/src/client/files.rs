//! Saved files: their addresses, and uploads piece by piece.

use std::{future::ready, path::Path};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use reqwest::{Body, Method, RequestBuilder, header};
use sortie_api::{
    File, FileId,
    file::{check_name, is_deceptive},
    plain,
};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use super::{Client, delete, rate_limit::wait_out};
use crate::{
    args::FileRef,
    connect::random_name,
    failure::{Failure, Result},
};

/// Bytes of a file that are read at once.
const PIECE: usize = 256 * 1024;

impl Client {
    /// Returns the address of a file by its id or name.
    pub(crate) fn file(&self, file: &FileRef) -> Result<String> {
        self.below("v1/files", [file.as_str()])
    }

    pub(crate) async fn delete_file(&self, file: &FileRef) -> Result<()> {
        self.ask(delete(self.file(file)?)).await
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

    /// Makes the request of an upload, with a body that is read from the file.
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

/// A form with a name and a file.
struct Form {
    boundary: String,
    head: Bytes,
    tail: Bytes,
}

impl Form {
    fn new(name: &str) -> Result<Self> {
        let boundary = random_name()?;
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

    /// Returns the form around the first `length` bytes of the file. The request fails if the file becomes shorter.
    fn body(self, file: tokio::fs::File, length: u64) -> Body {
        let content = ReaderStream::with_capacity(file.take(length), PIECE);
        let text = |bytes| stream::once(ready(Ok::<_, std::io::Error>(bytes)));
        Body::wrap_stream(text(self.head).chain(content).chain(text(self.tail)))
    }
}

/// A name for a file that only one run reads.
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

/// Maps the ids of files to names.
pub(crate) fn refs(ids: &[FileId]) -> impl Iterator<Item = FileRef> {
    ids.iter().copied().map(FileRef::from)
}
