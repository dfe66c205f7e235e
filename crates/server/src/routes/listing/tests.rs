use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::body::HttpBody as _;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sortie_store::runs::LargeText;

use super::*;
use crate::kit::{ANSWER_BYTES, LargeTexts, TextForm};

type Read<P> = Result<Found<(P, Entry), P>, Refusal>;

/// A list of what a function returns at once.
fn list<P: Clone + Send + Sync + 'static>(
    stretch: u32,
    read: impl Fn(Option<P>, u32) -> Read<P> + Send + Sync + 'static,
    (after, limit): (Option<P>, u32),
    form: Form<P>,
) -> Pieces {
    let read = move |after, limit| std::future::ready(read(after, limit));
    let list = Listing {
        stretch,
        read,
        after,
        limit,
        form,
    };
    list.pieces()
}

fn page<P: std::fmt::Display>() -> Form<P> {
    Form::Page(Box::new(|last| format!("after {last}")))
}

/// Numbers from 1 on, as texts of `size` bytes.
#[derive(Clone)]
struct Numbers {
    count: u32,
    size: usize,
    /// Reads behind this number fail.
    fails_behind: u32,
    /// Number of entries of each read.
    reads: Arc<Mutex<Vec<usize>>>,
}

impl Numbers {
    fn new(count: u32, size: usize) -> Self {
        Self {
            count,
            size,
            fails_behind: u32::MAX,
            reads: Arc::default(),
        }
    }

    fn text(&self, number: u32) -> String {
        format!("{number:03}{}", "x".repeat(self.size - 3))
    }

    fn read(&self, after: Option<u32>, limit: u32) -> Read<u32> {
        let after = after.unwrap_or(0);
        if after > self.fails_behind {
            return Err(ErrorCode::Unavailable.because("the database is away"));
        }
        let read: Vec<u32> = (after + 1..=self.count).take(limit as usize).collect();
        self.reads.lock().push(read.len());
        let entry = |number: u32| Ok((number, Entry::of(&self.text(number))?));
        Ok(Found::all(
            read.into_iter().map(entry).collect::<Result<_, Refusal>>()?,
        ))
    }

    fn list(&self, after: Option<u32>, limit: u32, form: Form<u32>) -> Pieces {
        let numbers = self.clone();
        list(
            20,
            move |after, limit| numbers.read(after, limit),
            (after, limit),
            form,
        )
    }
}

async fn body_of(response: Response) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn a_list_is_the_same_whatever_its_length_and_the_size_of_its_entries() {
    let bodies = BodyBudget::default();
    for size in [3, 5_000, 100_000] {
        for (count, limit) in [
            (0, 5),
            (1, 1),
            (2, 1),
            (19, 20),
            (20, 20),
            (21, 20),
            (45, 100),
            (45, 41),
            (45, 40),
        ] {
            let texts: Vec<String> = (1..=count.min(limit))
                .map(|number| Numbers::new(count, size).text(number))
                .collect();
            let list = Numbers::new(count, size).list(None, limit, Form::Array);
            assert_eq!(body_of(list.respond(&bodies).await.unwrap()).await, json!(texts));
            let next_cursor = if count > limit {
                format!("after {limit}")
            } else {
                String::new()
            };
            let list = Numbers::new(count, size).list(None, limit, page());
            let page = body_of(list.respond(&bodies).await.unwrap()).await;
            assert_eq!(
                page,
                json!({"items": texts, "next_cursor": next_cursor}),
                "{size} {count} {limit}"
            );
        }
    }
    for size in [3, 100_000] {
        let alone = Numbers::new(1, size);
        let answer = alone.list(None, 1, Form::Alone).respond(&bodies).await;
        assert_eq!(body_of(answer.unwrap()).await, json!(alone.text(1)));
    }
}

#[tokio::test]
async fn a_piece_is_bounded_by_bytes_and_entries_that_do_not_fit_are_rarely_read_twice() {
    let size = 30_000;
    let numbers = Numbers::new(100, size);
    let mut list = numbers.list(None, 100, Form::Array);
    let mut pieces = 0;
    while let Some(piece) = list.try_next().await.unwrap() {
        assert!(piece.len() <= PIECE_BYTES + size + 10);
        pieces += 1;
    }
    assert_eq!(pieces, 34, "three entries in each");
    let read: usize = numbers.reads.lock().iter().sum();
    assert!(read <= 120, "{read}");
}

#[tokio::test]
async fn short_entries_are_answered_whole_and_with_their_length() {
    let list = Numbers::new(100, 10).list(None, 100, Form::Array);
    let response = list.respond(&BodyBudget::default()).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), Some(100 * 13 + 1));
}

#[tokio::test]
async fn a_failure_in_the_middle_breaks_the_answer_off() {
    let numbers = |fails_behind| Numbers {
        fails_behind,
        ..Numbers::new(100, 5_000)
    };
    let bodies = BodyBudget::default();
    let list = numbers(50).list(None, 100, Form::Array);
    let mut body = list.respond(&bodies).await.unwrap().into_body();
    let mut shown = 0;
    let broken = loop {
        match body.frame().await {
            Some(Ok(frame)) => shown += frame.into_data().unwrap().len(),
            other => break other,
        }
    };
    assert!(shown > 200_000);
    assert!(
        matches!(broken, Some(Err(_))),
        "it does not end as if it were whole"
    );
    // A failure before the first piece becomes a normal error response.
    let refusal = numbers(5).list(Some(6), 10, Form::Array);
    assert!(refusal.respond(&bodies).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_pieces_has_room_until_it_is_sent() {
    let bodies = BodyBudget::of(2 * ANSWER_BYTES);
    let numbers = Numbers::new(10, 30_000);
    let answer = || numbers.list(None, 10, Form::Array).respond(&bodies);
    let _others = bodies.answer_room(ANSWER_BYTES / 2).await.unwrap();
    let first = answer().await.unwrap();
    assert!(answer().await.is_err(), "there is room for one");
    drop(first);
    answer().await.unwrap();
}

/// The numbers from 1 on with an odd tens digit. One read looks at ten numbers.
fn odd(after: Option<u32>, limit: u32) -> Read<u32> {
    let after = after.unwrap_or_default();
    let end = (after + 10).min(100);
    let odd = (after + 1..=end).filter(|number| number / 10 % 2 == 1);
    let entry = |number: u32| Ok((number, Entry::of(&number)?));
    let items: Vec<_> = odd
        .take(limit as usize)
        .map(entry)
        .collect::<Result<_, Refusal>>()?;
    let is_full = items.len() == limit as usize;
    Ok(Found {
        items,
        stopped_at: (!is_full && end < 100).then_some(end),
    })
}

async fn shown(after: Option<u32>, limit: u32, form: Form<u32>) -> Value {
    let list = list(4, odd, (after, limit), form);
    body_of(list.respond(&BodyBudget::default()).await.unwrap()).await
}

#[tokio::test]
async fn a_page_ends_where_its_source_has_stopped_and_the_next_goes_on_there() {
    let empty = shown(None, 9, page()).await;
    // Ten was the last number that the list read.
    assert_eq!(empty, json!({"items": [10], "next_cursor": "after 10"}));
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = shown(cursor, 7, page()).await;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 7);
        seen.extend(items.iter().map(|item| item.as_u64().unwrap()));
        match page["next_cursor"].as_str().unwrap() {
            "" => break,
            next => cursor = Some(next.strip_prefix("after ").unwrap().parse().unwrap()),
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
            shown(Some(20), limit, Form::Array).await,
            json!(
                all.iter()
                    .filter(|number| **number > 20)
                    .take(limit as usize)
                    .collect::<Vec<_>>()
            ),
            "the first read finds nothing: {limit}"
        );
        assert_eq!(shown(None, limit, Form::Array).await, json!(expected), "{limit}");
    }
}

#[tokio::test]
async fn others_have_a_turn_between_the_reads_of_an_array() {
    let mut turns = 0;
    let others = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    let array = async {
        // Numbers without a match. One read looks at one number, and never waits.
        let barren = |after: Option<u32>, _limit: u32| -> Read<u32> {
            let next = after.unwrap_or_default() + 1;
            Ok(Found {
                items: Vec::new(),
                stopped_at: (next < 1_000).then_some(next),
            })
        };
        let list = list(4, barren, (None, 100), Form::Array);
        body_of(list.respond(&BodyBudget::default()).await.unwrap()).await
    };
    tokio::select! {
        biased;
        answer = array => assert_eq!(answer, json!([])),
        () = others => unreachable!(),
    }
    assert!(turns >= 900, "{turns}");
}

/// A list of texts of these sizes. With `changes`, an entry is another one where it is read again.
fn sizes(sizes: &[usize], changes: bool, form: Form<usize>) -> Pieces {
    let (sizes, made) = (sizes.to_vec(), AtomicUsize::new(0));
    let limit = u32::try_from(sizes.len()).unwrap();
    let read = move |after: Option<usize>, limit| {
        let from = after.map_or(0, |after| after + 1);
        let entry = |item: usize| {
            let is_first = made.fetch_add(1, Ordering::SeqCst) == 0;
            let letter = if changes && !is_first { "y" } else { "x" };
            Ok((item, Entry::of(&letter.repeat(sizes[item]))?))
        };
        let items = (from..sizes.len()).take(limit as usize).map(entry);
        Ok(Found::all(items.collect::<Result<_, Refusal>>()?))
    };
    list(4, read, (None, limit), form)
}

#[tokio::test]
async fn an_entry_of_any_size_is_sent_in_pieces() {
    for of in [
        &[1_000_000][..],
        &[PIECE_BYTES - 2, PIECE_BYTES - 1, PIECE_BYTES],
        &[10, 200_000, 10, 10, 300_000],
        &[PIECE_BYTES * 2 - 2],
    ] {
        let texts: Vec<String> = of.iter().map(|size| "x".repeat(*size)).collect();
        for (form, is_page) in [(Form::Array, false), (page(), true)] {
            let mut list = sizes(of, false, form);
            let mut all = Vec::new();
            while let Some(piece) = list.try_next().await.unwrap() {
                assert!(piece.len() <= 2 * PIECE_BYTES + 100, "{} of {of:?}", piece.len());
                all.extend(piece);
            }
            let expected = if is_page {
                json!({"items": texts, "next_cursor": ""})
            } else {
                json!(texts)
            };
            assert_eq!(serde_json::from_slice::<Value>(&all).unwrap(), expected, "{of:?}");
        }
    }
}

#[tokio::test]
async fn an_entry_that_changes_while_it_is_sent_breaks_the_answer_off() {
    let changing = sizes(&[200_000], true, Form::Array);
    let response = changing.respond(&BodyBudget::default()).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_room() {
    let bodies = BodyBudget::of(2 * ANSWER_BYTES);
    let full = bodies.answer_room(ANSWER_BYTES + 60_000).await.unwrap();
    let list = sizes(&[50_000; 5], false, Form::Array);
    let (response, ()) = tokio::join!(list.respond(&bodies), async {
        tokio::task::yield_now().await;
        drop(full);
    });
    let body = body_of(response.unwrap()).await;
    assert_eq!(body.as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_piece_is_made_when_the_one_before_is_taken() {
    let numbers = Numbers::new(100, 30_000);
    let mut list = numbers.list(None, 100, Form::Array);
    for reads in 1..=5 {
        list.next().await.unwrap().unwrap();
        tokio::task::yield_now().await;
        assert_eq!(numbers.reads.lock().len(), reads);
    }
}

/// Workflows with large definitions, which others replace twice before they are read, and then no more.
struct Replaced {
    texts: LargeTexts,
    revisions: Mutex<[i64; 3]>,
}

const LAST: i64 = 3;

impl Replaced {
    fn new() -> Self {
        let texts = LargeTexts::of(BodyBudget::default(), async |_, text| {
            let LargeText::Workflow(_, LAST, _) = text else {
                return Err(Refusal::not_found());
            };
            Ok(json!({"prompt": "x".repeat(100_000)}).to_string())
        });
        Self {
            texts,
            revisions: Mutex::new([1, LAST, 2]),
        }
    }

    fn entry_of(&self, item: usize, revision: i64) -> Result<Entry, Refusal> {
        let at = sortie_api::Timestamp::from_micros(1);
        let name = item.to_string();
        let text = LargeText::Workflow(name.as_str().into(), revision, at);
        let org = sortie_api::OrgId::new(at, [1; 10]);
        let text = self.texts.open(org, text, TextForm::Json);
        let record = json!({"item": item, "revision": revision});
        Entry::ending_with(&record, "\"text\":", text)
    }

    /// The revision that the entry has now. The next one comes at once.
    fn read_one(&self, item: usize) -> i64 {
        let revision = &mut self.revisions.lock()[item];
        std::mem::replace(revision, LAST.min(*revision + 1))
    }

    fn expected(item: usize) -> Value {
        json!({"item": item, "text": {"prompt": "x".repeat(100_000)}, "revision": LAST})
    }
}

#[tokio::test]
async fn entries_that_are_replaced_between_two_reads_are_read_again() {
    let bodies = BodyBudget::default();
    let replaced = Replaced::new();
    let read = move |after: Option<usize>, limit| {
        let from = after.map_or(0, |after| after + 1);
        let items = (from..3).take(limit as usize);
        let items = items.map(|item| Ok((item, replaced.entry_of(item, replaced.read_one(item))?)));
        Ok(Found::all(items.collect::<Result<_, Refusal>>()?))
    };
    let list = list(2, read, (None, 3), Form::Array);
    let all = body_of(list.respond(&bodies).await.unwrap()).await;
    assert_eq!(all, json!([0, 1, 2].map(Replaced::expected)));

    let replaced = Replaced::new();
    let read = || async { replaced.entry_of(0, replaced.read_one(0)) };
    let entry = Entry::of_one_version(read).await.unwrap();
    let answer = body_of(entry.pieces().respond(&bodies).await.unwrap()).await;
    assert_eq!(answer, Replaced::expected(0));
    // The changes never stop.
    let read = || async { replaced.entry_of(0, 1) };
    assert!(Entry::of_one_version(read).await.is_err());
}
