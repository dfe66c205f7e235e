//! The body of a list, stretch by stretch: what one entry holds may be large (a run's output 1 MiB, a schedule's input
//! as much), so a list of a hundred is never held as a whole, however slowly its reader takes it.

use std::io::Write as _;

use axum::{body::Body, response::Response};
use futures_util::{StreamExt as _, stream};
use serde::Serialize;
use sortie_engine::Error;
use sortie_store::Found;

use crate::kit::{ApiResult, json_response};

/// Source of a list.
pub(super) trait Source: Send + Sync + 'static {
    /// Type of an entry.
    type Item: Serialize + Send;
    /// Position of an entry in the order of the list.
    type Position: Clone + Send + Sync;

    /// Number of entries that are read, and held, at once.
    const STRETCH: u32;

    /// The entries behind `before`, or from the beginning, at most `limit`.
    fn read(
        &self,
        before: Option<Self::Position>,
        limit: u32,
    ) -> impl Future<Output = Result<Found<Self::Item, Self::Position>, Error>> + Send;

    /// Returns the position of an entry.
    fn position(item: &Self::Item) -> Self::Position;

    /// The cursor of the page behind this position. A list that is only ever an array has none.
    fn cursor_after(&self, _last: Self::Position) -> String {
        String::new()
    }
}

/// Form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A plain array.
    Array,
    /// `{items, next_cursor}`.
    Page,
}

/// A list, as far as it is not shown yet.
pub(super) struct Listing<S: Source> {
    source: S,
    /// Only entries behind this one.
    before: Option<S::Position>,
    /// Entries still to be shown, at most.
    left: u32,
    form: Form,
    begun: bool,
}

impl<S: Source> Listing<S> {
    /// The entries behind `before`, at most `limit`.
    pub(super) fn new(source: S, before: Option<S::Position>, limit: u32, form: Form) -> Self {
        Self {
            source,
            before,
            left: limit,
            form,
            begun: false,
        }
    }

    /// The answer. What goes wrong with the first stretch is an error; later, the connection is broken off.
    pub(super) async fn respond(self) -> ApiResult<Response> {
        let (first, rest) = self.stretch().await?;
        let Some(rest) = rest else {
            return Ok(json_response(first));
        };
        let rest = stream::try_unfold(Some(rest), |rest| async move {
            let Some(rest) = rest else { return Ok(None) };
            let stretch = rest.stretch().await.inspect_err(|error| {
                tracing::error!(%error, "list answer aborted");
            })?;
            Ok::<_, Error>(Some(stretch))
        });
        let body = stream::once(async { Ok(first) }).chain(rest);
        Ok(json_response(Body::from_stream(body)))
    }

    /// The next stretch as text, and the list without it; none when that was the end.
    async fn stretch(mut self) -> Result<(Vec<u8>, Option<Self>), Error> {
        let last = self.left <= S::STRETCH;
        let limit = if last {
            // One more than is shown tells whether there is another page.
            self.left + u32::from(self.form == Form::Page)
        } else {
            S::STRETCH
        };
        let Found { items, stopped_at } = self.source.read(self.before.clone(), limit).await?;
        let ended = match (&stopped_at, self.form) {
            // The next page goes on where the source has stopped.
            (Some(_), Form::Page) => true,
            // An array has no next page.
            (Some(_), Form::Array) => false,
            (None, _) => last || items.len() < usize::try_from(limit).unwrap_or(usize::MAX),
        };
        let mut text = Vec::new();
        if !self.begun {
            text.extend_from_slice(match self.form {
                Form::Page => b"{\"items\":[",
                Form::Array => b"[",
            });
        }
        let mut next_cursor = String::new();
        for item in items {
            let Some(left) = self.left.checked_sub(1) else {
                next_cursor = self
                    .before
                    .clone()
                    .map(|last| self.source.cursor_after(last))
                    .unwrap_or_default();
                break;
            };
            if self.begun {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, &item).map_err(|error| Error::Internal(error.to_string()))?;
            self.begun = true;
            self.left = left;
            self.before = Some(S::position(&item));
        }
        if let Some(position) = stopped_at {
            next_cursor = self.source.cursor_after(position.clone());
            self.before = Some(position);
        }
        if ended {
            text.push(b']');
            if self.form == Form::Page {
                // Writing to memory cannot fail.
                let _written = write!(text, ",\"next_cursor\":\"{next_cursor}\"}}");
            }
        }
        Ok((text, (!ended).then_some(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers from 1 on whose tens digit is odd. One read looks at ten numbers.
    struct Odd;

    impl Source for Odd {
        type Item = u32;
        type Position = u32;

        const STRETCH: u32 = 4;

        async fn read(&self, before: Option<u32>, limit: u32) -> Result<Found<u32, u32>, Error> {
            let behind = before.unwrap_or_default();
            let end = (behind + 10).min(100);
            let odd = (behind + 1..=end).filter(|number| number / 10 % 2 == 1);
            let items: Vec<u32> = odd.take(limit as usize).collect();
            let is_full = items.len() == limit as usize;
            Ok(Found {
                items,
                stopped_at: (!is_full && end < 100).then_some(end),
            })
        }

        fn position(item: &u32) -> u32 {
            *item
        }

        fn cursor_after(&self, last: u32) -> String {
            last.to_string()
        }
    }

    async fn shown(before: Option<u32>, limit: u32, form: Form) -> serde_json::Value {
        let answer = Listing::new(Odd, before, limit, form).respond().await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test]
    async fn a_page_ends_where_its_source_has_stopped_and_the_next_goes_on_there() {
        let empty = shown(None, 9, Form::Page).await;
        // Ten was the last number that was looked at.
        assert_eq!(empty, serde_json::json!({"items": [10], "next_cursor": "10"}));
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let page = shown(cursor, 7, Form::Page).await;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 7);
            seen.extend(items.iter().map(|item| item.as_u64().unwrap()));
            match page["next_cursor"].as_str().unwrap() {
                "" => break,
                next => cursor = Some(next.parse().unwrap()),
            }
        }
        let all: Vec<u64> = (1..=100).filter(|number| number / 10 % 2 == 1).collect();
        assert_eq!(seen, all);
    }

    #[tokio::test]
    async fn an_array_goes_on_behind_where_its_source_has_stopped() {
        let all: Vec<u32> = (1..=100).filter(|number| number / 10 % 2 == 1).collect();
        for limit in [1, 3, 4, 15, 50, 70] {
            let expected = &all[..all.len().min(limit as usize)];
            assert_eq!(
                shown(None, limit, Form::Array).await,
                serde_json::json!(expected),
                "{limit}"
            );
        }
    }
}
