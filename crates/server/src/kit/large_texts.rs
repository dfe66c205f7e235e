//! Large texts of answers: an answer keeps its position in a text instead of the text.
//!
//! A text is read from the store as a whole, and cached for the next pieces while its answer needs them. All answers share the
//! cache, so a text that many slow readers evict is read again. A text that may change in the meantime is kept in memory for its
//! answers ([`OpenText::hold`]): they would have to abort otherwise.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use parking_lot::{Mutex, MutexGuard};
use sortie_api::{OrgId, Refusal};
use sortie_engine::Engine;
use sortie_store::runs::LargeText;
use tokio::sync::Semaphore;

use super::{AnswerRoom, BodyBudget, PIECE_BYTES, PieceWriter};

/// Size of the cache for the texts of all answers, in bytes. One text is cached regardless of its size.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Number of texts that are read concurrently.
const LOADS: usize = 2;

/// Organization and name of a text.
type Key = (OrgId, LargeText);

/// Large texts of a node.
#[derive(Clone)]
pub(crate) struct LargeTexts(Arc<Shared>);

/// Reads a text of an organization.
type Load = dyn Fn(OrgId, LargeText) -> BoxFuture<'static, Result<String, Refusal>> + Send + Sync;

struct Shared {
    load: Box<Load>,
    loads: Semaphore,
    bodies: BodyBudget,
    texts: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    /// In the order of use: the most recently used one is last.
    kept: VecDeque<(Key, Arc<String>)>,
    open: HashMap<Key, OpenFor>,
}

/// Answers that use an open text.
#[derive(Default)]
struct OpenFor {
    /// Number of these answers.
    answers: usize,
    /// The text while it is kept in memory for them, with its memory reservation.
    held: Option<(Arc<String>, AnswerRoom)>,
}

impl LargeTexts {
    /// Creates the texts of a node. Texts that are kept in memory reserve it from `bodies`.
    pub(crate) fn new(engine: Engine, bodies: BodyBudget) -> Self {
        Self::of(bodies, move |org, text| {
            let engine = engine.clone();
            async move { engine.large_text(org, text).await }
        })
    }

    /// Creates texts that are read by a function.
    pub(crate) fn of<F>(
        bodies: BodyBudget,
        load: impl Fn(OrgId, LargeText) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<String, Refusal>> + Send + 'static,
    {
        Self(Arc::new(Shared {
            load: Box::new(move |org, text| load(org, text).boxed()),
            loads: Semaphore::new(LOADS),
            bodies,
            texts: Mutex::default(),
        }))
    }

    /// Opens a text of an organization for an answer.
    pub(crate) fn open(&self, org: OrgId, text: LargeText, form: TextForm) -> OpenText {
        let key = (org, text);
        self.texts().open.entry(key.clone()).or_default().answers += 1;
        OpenText {
            texts: self.clone(),
            key,
            form,
        }
    }

    async fn get(&self, key: &Key) -> Result<Arc<String>, Refusal> {
        if let Some(text) = self.use_kept(key) {
            return Ok(text);
        }
        let _permit = self.0.loads.acquire().await;
        // Another answer may have read it in the meantime.
        if let Some(text) = self.use_kept(key) {
            return Ok(text);
        }
        let text = Arc::new((self.0.load)(key.0, key.1.clone()).await?);
        let kept = &mut self.texts().kept;
        kept.push_back((key.clone(), Arc::clone(&text)));
        let mut bytes: usize = kept.iter().map(|(_, text)| text.len()).sum();
        while bytes > KEPT_BYTES && kept.len() > 1 {
            bytes -= kept.pop_front().map_or(0, |(_, text)| text.len());
        }
        Ok(text)
    }

    fn use_kept(&self, key: &Key) -> Option<Arc<String>> {
        if let Some(text) = self.held(key) {
            return Some(text);
        }
        let kept = &mut self.texts().kept;
        let place = kept.iter().position(|(other, _)| other == key)?;
        let used = kept.remove(place)?;
        let text = Arc::clone(&used.1);
        kept.push_back(used);
        Some(text)
    }

    fn held(&self, key: &Key) -> Option<Arc<String>> {
        let texts = self.texts();
        let held = texts.open.get(key).and_then(|open| open.held.as_ref());
        held.map(|(text, _)| Arc::clone(text))
    }

    /// Keeps a text in memory for the answers that use it.
    fn set_held(&self, key: &Key, text: Arc<String>, room: AnswerRoom) {
        let texts = &mut *self.texts();
        if let Some(open) = texts.open.get_mut(key) {
            open.held.get_or_insert((text, room));
            texts.kept.retain(|(other, _)| other != key);
        }
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.0.texts.lock()
    }
}

/// Form of a text in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// The text is JSON.
    Json,
    /// The text becomes a JSON string.
    Quoted,
    /// The text is a JSON object without surrounding spaces, and only its members are written.
    Members,
}

/// Text in an answer. Its memory is freed once all answers that use it have ended.
pub(crate) struct OpenText {
    texts: LargeTexts,
    key: Key,
    form: TextForm,
}

impl OpenText {
    /// Reads a text that may change in the store, and keeps it in memory until its answers have ended. Returns false if no memory
    /// is free for that. Returns `NotFound` if the text has already changed.
    pub(crate) async fn hold(&self) -> Result<bool, Refusal> {
        if !may_change(&self.key.1) {
            return Ok(true);
        }
        let text = self.texts.get(&self.key).await?;
        if self.texts.held(&self.key).is_some() {
            return Ok(true);
        }
        let room = self.texts.0.bodies.room_of_made(text.len()).await;
        Ok(room
            .map(|room| self.texts.set_held(&self.key, text, room))
            .is_ok())
    }

    /// Keeps `text` in memory until its answers have ended, if memory is free now.
    pub(crate) fn hold_known(&self, text: String) {
        if let Some(room) = self.texts.0.bodies.answer_room_now(text.len()) {
            self.texts.set_held(&self.key, Arc::new(text), room);
        }
    }

    /// Returns the whole text. Drop it before a piece waits for the client.
    pub(crate) async fn read(&self) -> Result<Arc<String>, Refusal> {
        self.texts.get(&self.key).await
    }

    /// Writes the text. This answer does not keep it in memory while a piece waits for the client.
    pub(crate) async fn write(self, out: &mut PieceWriter) -> Result<(), Refusal> {
        let is_quoted = self.form == TextForm::Quoted;
        let braces = usize::from(self.form == TextForm::Members);
        // JSON escapes may make a character of a string six times as long.
        let step = if is_quoted { PIECE_BYTES / 6 } else { PIECE_BYTES };
        let quote = if is_quoted { "\"" } else { "" };
        out.push(quote);
        let mut position = braces;
        loop {
            out.send_full().await;
            let text = self.texts.get(&self.key).await?;
            let mut left = text
                .get(position..text.len().saturating_sub(braces))
                .ok_or_else(|| Refusal::internal("a stored text became another one"))?;
            while !left.is_empty() && !out.is_full() {
                let (piece, rest) = left.split_at(left.floor_char_boundary(step));
                if is_quoted {
                    // The text may be a part of a line.
                    let quoted = sortie_api::json::to_line(piece).map_err(Refusal::internal)?;
                    out.push(quoted.get(1..quoted.len() - 1).unwrap_or_default());
                } else {
                    out.push(piece);
                }
                position += piece.len();
                left = rest;
            }
            if left.is_empty() {
                out.push(quote);
                return Ok(());
            }
        }
    }
}

/// Whether the store may replace this text before all answers with it have ended.
const fn may_change(text: &LargeText) -> bool {
    match text {
        LargeText::Workflow(..) | LargeText::ScheduleInput(..) => true,
        LargeText::Output(_) | LargeText::Definition(_) | LargeText::Event(..) => false,
    }
}

impl Drop for OpenText {
    fn drop(&mut self) {
        let mut texts = self.texts.texts();
        let others = texts.open.get_mut(&self.key).map_or(0, |open| {
            open.answers = open.answers.saturating_sub(1);
            open.answers
        });
        if others == 0 {
            texts.open.remove(&self.key);
            texts.kept.retain(|(key, _)| *key != self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::{StreamExt as _, TryStreamExt as _};
    use sortie_api::Timestamp;

    use super::*;
    use crate::kit::Pieces;

    const LENGTH: usize = 10 << 20;

    /// Texts that are read once and have changed then, with room for so many bytes of answers.
    fn changing(room: usize) -> LargeTexts {
        let loads = AtomicUsize::new(0);
        LargeTexts::of(BodyBudget::of(2 * room), move |_, text| {
            let LargeText::Workflow(_, revision, _) = text else {
                panic!("{text:?}");
            };
            let is_first = loads.fetch_add(1, Ordering::SeqCst) < 4;
            async move {
                if is_first {
                    Ok(revision.to_string().repeat(LENGTH))
                } else {
                    Err(Refusal::not_found())
                }
            }
        })
    }

    fn open(texts: &LargeTexts, revision: i64) -> OpenText {
        let at = Timestamp::from_micros(1);
        texts.open(
            OrgId::new(at, [1; 10]),
            LargeText::Workflow("a".into(), revision, at),
            TextForm::Json,
        )
    }

    fn pieces(text: OpenText) -> Pieces {
        Pieces::written(|mut out| async move {
            text.write(&mut out).await?;
            Ok(out)
        })
    }

    async fn all(text: OpenText) -> Result<Vec<u8>, Refusal> {
        pieces(text).try_concat().await
    }

    #[tokio::test]
    async fn a_text_that_is_held_stays_although_it_changes_and_others_push_it_out() {
        let texts = changing(64 << 20);
        let (held, unheld) = (open(&texts, 1), open(&texts, 2));
        assert!(held.hold().await.unwrap());
        let mut unheld = pieces(unheld);
        assert!(unheld.next().await.unwrap().is_ok());
        for revision in [3, 4] {
            let other = pieces(open(&texts, revision)).next().await;
            other.unwrap().unwrap();
        }
        let second = open(&texts, 1);
        for same in [held, second] {
            assert_eq!(all(same).await.unwrap(), vec![b'1'; LENGTH]);
        }
        assert_eq!(unheld.next().await.unwrap().unwrap_err().to_string(), "not found");
        assert_eq!(open(&texts, 1).hold().await.unwrap_err().to_string(), "not found");
    }

    #[tokio::test(start_paused = true)]
    async fn a_text_without_room_is_not_held_and_one_has_room_once_for_all_of_its_answers() {
        let texts = changing(3 * LENGTH / 2);
        let first: Vec<_> = (0..3).map(|_| open(&texts, 1)).collect();
        for text in &first {
            assert!(text.hold().await.unwrap());
        }
        let second = open(&texts, 2);
        assert!(!second.hold().await.unwrap());
        second.hold_known("2".repeat(LENGTH));
        assert!(texts.held(&second.key).is_none());
        drop(first);
        second.hold_known("2".repeat(LENGTH));
        assert_eq!(all(second).await.unwrap(), vec![b'2'; LENGTH]);
    }
}
