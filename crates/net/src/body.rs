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
