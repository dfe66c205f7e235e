use axum::body::HttpBody as _;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};

use sortie_store::runs::LargeText;

use super::*;
use crate::kit::LargeTexts;

/// Numbers from 1 on, as texts of `size` bytes.
struct Numbers {
    count: u32,
    size: usize,
    /// Reads behind this number fail.
    fails_behind: u32,
    /// Number of entries of each read.
    reads: Mutex<Vec<usize>>,
}

impl Numbers {
    fn new(count: u32, size: usize) -> Self {
        Self {
            count,
            size,
            fails_behind: u32::MAX,
            reads: Mutex::default(),
        }
    }

    fn text(&self, number: u32) -> String {
        format!("{number:03}{}", "x".repeat(self.size - 3))
    }
}

impl Source for Numbers {
    type Item = u32;
    type Position = u32;

    fn stretch(&self) -> u32 {
        20
    }

    async fn read(&self, before: Option<u32>, limit: u32) -> Result<Found<u32, u32>, Error> {
        let behind = before.unwrap_or(0);
        if behind > self.fails_behind {
            return Err(Error::Unavailable("the database is away".to_owned()));
        }
        let read: Vec<u32> = (behind + 1..=self.count).take(limit as usize).collect();
        self.reads.lock().push(read.len());
        Ok(Found::all(read))
    }

    fn position(&self, number: &u32) -> u32 {
        *number
    }

    fn entry(&mut self, number: u32) -> Result<Entry, Error> {
        Entry::of(&self.text(number))
    }

    fn cursor_after(&self, last: u32) -> String {
        format!("after {last}")
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
            let list = Listing::new(Numbers::new(count, size), None, limit, Form::Array);
            assert_eq!(body_of(list.respond(&bodies).await.unwrap()).await, json!(texts));
            let next_cursor = if count > limit {
                format!("after {limit}")
            } else {
                String::new()
            };
            let list = Listing::new(Numbers::new(count, size), None, limit, Form::Page);
            let page = body_of(list.respond(&bodies).await.unwrap()).await;
            assert_eq!(
                page,
                json!({"items": texts, "next_cursor": next_cursor}),
                "{size} {count} {limit}"
            );
        }
    }
    let alone = Listing::new(Numbers::new(1, 3), None, 1, Form::Within);
    assert_eq!(body_of(alone.respond(&bodies).await.unwrap()).await, json!("001"));
}

#[tokio::test]
async fn a_piece_is_bounded_by_bytes_and_entries_that_do_not_fit_are_rarely_read_twice() {
    let size = 30_000;
    let mut list = Listing::new(Numbers::new(100, size), None, 100, Form::Array);
    let mut pieces = 0;
    while !list.is_over() {
        assert!(list.piece().await.unwrap().len() <= PIECE_BYTES + size + 10);
        pieces += 1;
    }
    assert_eq!(pieces, 34, "three entries in each");
    let read: usize = list.source.reads.lock().iter().sum();
    assert!(read <= 120, "{read}");
}

#[tokio::test]
async fn short_entries_are_answered_whole_and_with_their_length() {
    let list = Listing::new(Numbers::new(100, 10), None, 100, Form::Array);
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
    let list = Listing::new(numbers(50), None, 100, Form::Array);
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
    // A failure before anything is sent is an answer.
    let list = Listing::new(numbers(5), None, 10, Form::Array);
    let refusal = Listing {
        before: Some(6),
        ..list
    };
    assert!(refusal.respond(&bodies).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_pieces_has_room_until_it_is_sent() {
    let bodies = BodyBudget::of(2 * ANSWER_BYTES);
    let answer = || Listing::new(Numbers::new(10, 30_000), None, 10, Form::Array).respond(&bodies);
    let _others = bodies.answer_room(ANSWER_BYTES / 2).await.unwrap();
    let first = answer().await.unwrap();
    assert!(answer().await.is_err(), "there is room for one");
    drop(first);
    answer().await.unwrap();
}

/// The numbers from 1 on whose tens digit is odd. One read looks at ten numbers.
struct Odd;

impl Source for Odd {
    type Item = u32;
    type Position = u32;

    fn stretch(&self) -> u32 {
        4
    }

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

    fn position(&self, item: &u32) -> u32 {
        *item
    }

    fn entry(&mut self, number: u32) -> Result<Entry, Error> {
        Entry::of(&number)
    }

    fn cursor_after(&self, last: u32) -> String {
        last.to_string()
    }
}

async fn shown(before: Option<u32>, limit: u32, form: Form) -> Value {
    let list = Listing::new(Odd, before, limit, form);
    body_of(list.respond(&BodyBudget::default()).await.unwrap()).await
}

#[tokio::test]
async fn a_page_ends_where_its_source_has_stopped_and_the_next_goes_on_there() {
    let empty = shown(None, 9, Form::Page).await;
    // Ten was the last number that was looked at.
    assert_eq!(empty, json!({"items": [10], "next_cursor": "10"}));
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

/// Numbers without a match. One read looks at one number, and never waits.
struct Barren;

impl Source for Barren {
    type Item = u32;
    type Position = u32;

    fn stretch(&self) -> u32 {
        4
    }

    async fn read(&self, before: Option<u32>, _limit: u32) -> Result<Found<u32, u32>, Error> {
        let next = before.unwrap_or_default() + 1;
        Ok(Found {
            items: Vec::new(),
            stopped_at: (next < 1_000).then_some(next),
        })
    }

    fn position(&self, item: &u32) -> u32 {
        *item
    }

    fn entry(&mut self, number: u32) -> Result<Entry, Error> {
        Entry::of(&number)
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
        let list = Listing::new(Barren, None, 100, Form::Array);
        body_of(list.respond(&BodyBudget::default()).await.unwrap()).await
    };
    tokio::select! {
        biased;
        answer = array => assert_eq!(answer, json!([])),
        () = others => unreachable!(),
    }
    assert!(turns >= 900, "{turns}");
}

/// Texts of these sizes. One entry may change while it is sent.
struct Sizes {
    texts: Vec<usize>,
    changes: bool,
    made: usize,
}

impl Source for Sizes {
    type Item = usize;
    type Position = usize;

    fn stretch(&self) -> u32 {
        4
    }

    async fn read(&self, before: Option<usize>, limit: u32) -> Result<Found<usize, usize>, Error> {
        let from = before.map_or(0, |before| before + 1);
        Ok(Found::all(
            (from..self.texts.len()).take(limit as usize).collect(),
        ))
    }

    fn position(&self, item: &usize) -> usize {
        *item
    }

    fn entry(&mut self, item: usize) -> Result<Entry, Error> {
        self.made += 1;
        let letter = if self.changes && self.made > 1 { "y" } else { "x" };
        Entry::of(&letter.repeat(self.texts[item]))
    }

    fn restart(&mut self) {
        self.made = 0;
    }

    fn around(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        Ok((
            b"{\"rows\":[".to_vec(),
            format!("],\"made\":{}}}", self.made).into_bytes(),
        ))
    }
}

fn sizes(sizes: &[usize]) -> Sizes {
    Sizes {
        texts: sizes.to_vec(),
        changes: false,
        made: 0,
    }
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
        let limit = u32::try_from(of.len()).unwrap();
        for form in [Form::Array, Form::Page] {
            let mut list = Listing::new(sizes(of), None, limit, form);
            let mut all = Vec::new();
            while !list.is_over() {
                let piece = list.piece().await.unwrap();
                assert!(piece.len() <= 2 * PIECE_BYTES + 100, "{} of {of:?}", piece.len());
                all.extend(piece);
            }
            let expected = match form {
                Form::Page => json!({"items": texts, "next_cursor": ""}),
                Form::Array | Form::Within => json!(texts),
            };
            assert_eq!(serde_json::from_slice::<Value>(&all).unwrap(), expected, "{of:?}");
        }
    }
}

#[tokio::test]
async fn an_entry_that_changes_while_it_is_sent_breaks_the_answer_off() {
    let changing = Sizes {
        changes: true,
        ..sizes(&[200_000])
    };
    let list = Listing::new(changing, None, 1, Form::Array);
    let response = list.respond(&BodyBudget::default()).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn an_array_within_an_object_has_what_is_around_it() {
    let list = Listing::new(sizes(&[3, 4]), None, 10, Form::Within);
    let body = body_of(list.respond(&BodyBudget::default()).await.unwrap()).await;
    assert_eq!(body, json!({"rows": ["xxx", "xxxx"], "made": 2}));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_waits_for_room_begins_anew() {
    let bodies = BodyBudget::of(2 * ANSWER_BYTES);
    let full = bodies.answer_room(ANSWER_BYTES + 60_000).await.unwrap();
    let list = Listing::new(sizes(&[50_000; 5]), None, 5, Form::Within);
    let (response, ()) = tokio::join!(list.respond(&bodies), async {
        tokio::task::yield_now().await;
        drop(full);
    });
    let body = body_of(response.unwrap()).await;
    assert_eq!(body["rows"].as_array().unwrap().len(), 5);
    assert_eq!(body["made"], 5, "no entry counts twice");
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
                return Err(Error::NotFound);
            };
            Ok(json!({"prompt": "x".repeat(100_000)}).to_string())
        });
        Self {
            texts,
            revisions: Mutex::new([1, LAST, 2]),
        }
    }

    fn entry_of(&self, item: usize, revision: i64) -> Result<Entry, Error> {
        let at = sortie_api::Timestamp::from_micros(1);
        let name = item.to_string();
        let text = LargeText::Workflow(name.as_str().into(), revision, at);
        let text = self.texts.open(sortie_api::OrgId::new(at, [1; 10]), text);
        let record = json!({"item": item, "text": null, "revision": revision});
        Entry::around(&record, "text", text, TextForm::Json)
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

impl Source for Replaced {
    type Item = (usize, i64);
    type Position = usize;

    fn stretch(&self) -> u32 {
        2
    }

    async fn read(&self, before: Option<usize>, limit: u32) -> Result<Found<(usize, i64), usize>, Error> {
        let from = before.map_or(0, |before| before + 1);
        let items = (from..3).take(limit as usize);
        Ok(Found::all(
            items.map(|item| (item, self.read_one(item))).collect(),
        ))
    }

    fn position(&self, (item, _): &(usize, i64)) -> usize {
        *item
    }

    fn entry(&mut self, (item, revision): (usize, i64)) -> Result<Entry, Error> {
        self.entry_of(item, revision)
    }
}

#[tokio::test]
async fn entries_that_are_replaced_between_two_reads_are_read_again() {
    let bodies = BodyBudget::default();
    let list = Listing::new(Replaced::new(), None, 3, Form::Array);
    let all = body_of(list.respond(&bodies).await.unwrap()).await;
    assert_eq!(all, json!([0, 1, 2].map(Replaced::expected)));

    let replaced = Replaced::new();
    let read = || async { replaced.entry_of(0, replaced.read_one(0)) };
    let entry = Entry::of_one_version(read).await.unwrap();
    let answer = body_of(entry.respond(&bodies).await.unwrap()).await;
    assert_eq!(answer, Replaced::expected(0));
    // Without an end of the changes.
    let read = || async { replaced.entry_of(0, 1) };
    assert!(Entry::of_one_version(read).await.is_err());
}
