//! Reads bodies of responses, decoded and with a size limit.

use bytes::{Bytes, BytesMut};
use reqwest::Response;

use crate::{DecodedBody, Error, unknown_coding};

/// Reads the body of a response. Refuses an unknown content coding, and more than `limit` bytes as soon as the size is known,
/// without reading the rest.
pub async fn read_body(response: Response, limit: usize) -> Result<Bytes, Error> {
    if response
        .content_length()
        .is_some_and(|length| usize::try_from(length).map_or(true, |l| l > limit))
    {
        return Err(Error::TooLarge { limit });
    }
    if let Some(coding) = unknown_coding(response.headers()) {
        return Err(Error::Coding(coding));
    }
    let (mut response, mut body) = (DecodedBody::new(response), BytesMut::new());
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Err(Error::TooLarge { limit });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The start of a body.
#[derive(Debug)]
pub struct BodyHead {
    /// At most the requested number of bytes.
    pub bytes: Bytes,
    /// Reason why reading ended.
    pub end: BodyEnd,
}

/// Reason why reading a body ended.
#[derive(Debug)]
pub enum BodyEnd {
    /// The body is complete.
    Whole,
    /// The limit was reached, and the rest was not read.
    Cut,
    /// The connection broke.
    Broken(Error),
}

/// Reads the first `limit` bytes of a body. If the connection breaks, the received bytes are kept, because the response has
/// arrived.
pub async fn read_head(response: Response, limit: usize) -> BodyHead {
    let (mut response, mut body) = (DecodedBody::new(response), Vec::new());
    let end = loop {
        match response.chunk().await {
            Ok(None) => break BodyEnd::Whole,
            Ok(Some(chunk)) => {
                let room = limit - body.len();
                let taken = chunk.get(..room).unwrap_or(&chunk);
                if body.capacity() - body.len() < taken.len() {
                    // Doubled, but never above the limit.
                    body.reserve_exact(taken.len().max(body.len().min(room)));
                }
                body.extend_from_slice(taken);
                if chunk.len() > room {
                    break BodyEnd::Cut;
                }
            }
            Err(error) => break BodyEnd::Broken(error),
        }
    };
    BodyHead {
        bytes: body.into(),
        end,
    }
}
