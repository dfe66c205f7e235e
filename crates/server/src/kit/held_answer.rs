//! Answers that are in memory as a whole: a large one counts against the budget of bodies until it is sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use http::Method;
use hyper::body::{Frame, SizeHint};

use super::BodyBudget;

/// Marks an answer that is not counted: its body is shared by all who ask, or cannot be had a second time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncounted;

/// Takes room for the body of an answer to a read. 503 where there is none for too long: nothing is lost by asking again.
pub(crate) async fn hold(budget: &BodyBudget, method: &Method, response: Response) -> Response {
    // A body that is made piece by piece does not know its size.
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    let is_read = *method == Method::GET && response.status().is_success();
    if !is_read || response.extensions().get::<Uncounted>().is_some() {
        return response;
    }
    let mut room = budget.room();
    match room.grow(usize::try_from(bytes).unwrap_or(usize::MAX)).await {
        Ok(()) if room.is_free() => response,
        Ok(()) => response.map(|body| with_guard(body, room)),
        Err(refusal) => refusal.into_response(),
    }
}

/// Makes a body that holds a guard until it is sent.
pub(crate) fn with_guard(body: Body, guard: impl Send + Unpin + 'static) -> Body {
    Body::new(Held { body, _guard: guard })
}

struct Held<G> {
    body: Body,
    _guard: G,
}

impl<G: Unpin> HttpBody for Held<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn answer(length: usize) -> Response {
        Response::new(Body::from(vec![b'x'; length]))
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_share_a_budget_until_they_are_sent() {
        let budget = BodyBudget::of(1 << 20);
        let get = Method::GET;
        let first = hold(&budget, &get, answer(1 << 20)).await;
        assert_eq!(
            first.body().size_hint().exact(),
            Some(1 << 20),
            "its length is told"
        );
        let second = hold(&budget, &get, answer(1 << 20)).await;
        assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
        for small in [0, 64 * 1024] {
            assert_eq!(hold(&budget, &get, answer(small)).await.status(), StatusCode::OK);
        }
        // What was done, or cannot be had again, is answered all the same.
        let done = hold(&budget, &Method::POST, answer(1 << 20)).await;
        assert_eq!(done.status(), StatusCode::OK);
        let mut once = answer(1 << 20);
        once.extensions_mut().insert(Uncounted);
        assert_eq!(hold(&budget, &get, once).await.status(), StatusCode::OK);
        drop(first);
        assert_eq!(
            hold(&budget, &get, answer(1 << 20)).await.status(),
            StatusCode::OK
        );
    }
}
