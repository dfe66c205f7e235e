//! Bodies of answers, decoded and taken up to a limit.

use bytes::{Bytes, BytesMut};
use reqwest::Response;

use crate::{DecodedBody, Error, unknown_coding};

/// Reads the body of an answer. One in a coding that is not known is refused. So is one of more than `limit` bytes, as soon as that is known; the rest of it is not read.
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

/// The beginning of a body.
#[derive(Debug)]
pub struct BodyHead {
    /// At most as many bytes as were asked for.
    pub bytes: Bytes,
    /// End of the reading: the whole body, or the reason why it is not whole.
    pub end: BodyEnd,
}

/// End of the reading of a body.
#[derive(Debug)]
pub enum BodyEnd {
    /// With the body.
    Whole,
    /// At the limit; the rest is not read.
    Cut,
    /// With the connection.
    Broken(Error),
}

/// Reads the first `limit` bytes of a body. What has come is kept also where the connection breaks: the answer itself
/// has arrived.
pub async fn read_head(response: Response, limit: usize) -> BodyHead {
    let (mut response, mut body) = (DecodedBody::new(response), Vec::new());
    let end = loop {
        match response.chunk().await {
            Ok(None) => break BodyEnd::Whole,
            Ok(Some(chunk)) => {
                let room = limit - body.len();
                let taken = chunk.get(..room).unwrap_or(&chunk);
                if body.capacity() - body.len() < taken.len() {
                    // Doubled, but never beyond the limit.
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
