//! Answers that are completely in memory: a large one counts against the body budget until it is sent.

use axum::{
    body::HttpBody as _,
    response::{IntoResponse as _, Response},
};
use http::Method;

use super::{ApiError, BodyBudget, body_budget::FREE_BYTES};

/// Marks an answer that is not counted, because all requests share the memory of its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uncounted;

/// Marks an answer that the client cannot request again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Once;

/// Reserves memory for the body of an answer. A read gets 503 if no memory becomes free in time, because the client can repeat
/// it. Any other answer reserves as much memory as is free.
pub(crate) async fn hold(budget: &BodyBudget, method: &Method, mut response: Response) -> Response {
    // A body that is generated piece by piece has no known size, and already has a reservation.
    let bytes = response.body().size_hint().exact().unwrap_or(0);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes <= FREE_BYTES || response.extensions().get::<Uncounted>().is_some() {
        return response;
    }
    let can_be_repeated = *method == Method::GET && response.extensions().get::<Once>().is_none();
    let room = if can_be_repeated {
        match budget.room_of_made(bytes).await {
            Ok(room) => room,
            Err(refusal) => return ApiError::from(refusal).into_response(),
        }
    } else {
        budget.room_of_unrefused(bytes)
    };
    response.extensions_mut().insert(room);
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::StatusCode;

    use super::*;
    use crate::kit::AnswerRoom;

    fn answer(length: usize) -> Response {
        Response::new(Body::from(vec![b'x'; length]))
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_share_a_budget_until_they_are_sent() {
        let budget = BodyBudget::of(2 << 20);
        let get = Method::GET;
        let mut first = hold(&budget, &get, answer(1 << 20)).await;
        assert_eq!(
            first.body().size_hint().exact(),
            Some(1 << 20),
            "its length is told"
        );
        let room = first.extensions_mut().remove::<AnswerRoom>().unwrap();
        drop(first);
        let second = hold(&budget, &get, answer(1 << 20)).await;
        assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
        for small in [0, 64 * 1024] {
            assert_eq!(hold(&budget, &get, answer(small)).await.status(), StatusCode::OK);
        }
        // An answer to a change, or one that cannot be repeated, is sent without a full reservation.
        let done = hold(&budget, &Method::POST, answer(1 << 20)).await;
        assert_eq!(done.status(), StatusCode::OK);
        let mut once = answer(1 << 20);
        once.extensions_mut().insert(Once);
        assert_eq!(hold(&budget, &get, once).await.status(), StatusCode::OK);
        drop((room, done));
        assert_eq!(
            hold(&budget, &get, answer(1 << 20)).await.status(),
            StatusCode::OK
        );
    }

    #[tokio::test]
    async fn what_was_done_takes_room_from_reads() {
        let budget = BodyBudget::of(2 << 20);
        let done = hold(&budget, &Method::PUT, answer(1 << 20)).await;
        assert!(done.extensions().get::<AnswerRoom>().is_some());
        assert!(budget.answer_room_now(1 << 20).is_none());
    }
}
