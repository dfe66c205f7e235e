//! Bodies of answers, taken up to a limit.

use bytes::{Bytes, BytesMut};
use reqwest::Response;

use crate::Error;

/// Reads the body of an answer. One of more than `limit` bytes is refused as soon as that is known; the rest of it
/// is not read.
pub async fn read_body(mut response: Response, limit: usize) -> Result<Bytes, Error> {
    if response
        .content_length()
        .is_some_and(|length| usize::try_from(length).map_or(true, |l| l > limit))
    {
        return Err(Error::TooLarge { limit });
    }
    let mut body = BytesMut::new();
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
pub async fn read_head(mut response: Response, limit: usize) -> BodyHead {
    let mut body: Vec<u8> = Vec::new();
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
            Err(error) => break BodyEnd::Broken(error.into()),
        }
    };
    BodyHead {
        bytes: body.into(),
        end,
    }
}
