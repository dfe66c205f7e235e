//! Large texts on their way out, piece by piece: an answer holds its place in a text, and not the text.
//!
//! A text is read whole from the store, and kept for the pieces that follow as long as its answer takes them. All answers
//! share the memory for that, so a text that many slow readers push out is read again.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use sortie_api::OrgId;
use sortie_engine::{Engine, Error};
use sortie_store::LargeText;
use tokio::sync::Semaphore;

/// Largest piece of an answer, in bytes.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;

/// Memory for the texts of all answers together, in bytes. One text is kept whatever its size.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// Texts that are read at once.
const LOADS: usize = 2;

/// Organization and name of a text.
type Key = (OrgId, LargeText);

/// Large texts of a node.
#[derive(Clone)]
pub(crate) struct LargeTexts(Arc<Shared>);

/// Reads a text of an organization.
type Load = dyn Fn(OrgId, LargeText) -> BoxFuture<'static, Result<String, Error>> + Send + Sync;

struct Shared {
    load: Box<Load>,
    loads: Semaphore,
    texts: Mutex<Texts>,
}

#[derive(Default)]
struct Texts {
    /// The last one was used last.
    kept: VecDeque<(Key, Arc<String>)>,
    /// Number of answers that a text is open for.
    open: HashMap<Key, usize>,
}

impl LargeTexts {
    /// The texts of a node.
    pub(crate) fn new(engine: Engine) -> Self {
        Self::of(move |org, text| {
            let engine = engine.clone();
            async move { engine.large_text(org, text).await }
        })
    }

    /// The texts that a function reads.
    pub(crate) fn of<F>(load: impl Fn(OrgId, LargeText) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, Error>> + Send + 'static,
    {
        Self(Arc::new(Shared {
            load: Box::new(move |org, text| load(org, text).boxed()),
            loads: Semaphore::new(LOADS),
            texts: Mutex::default(),
        }))
    }

    /// Opens a text of an organization for an answer, from its beginning.
    pub(crate) fn open(&self, org: OrgId, text: LargeText) -> OpenText {
        let key = (org, text);
        *self.texts().open.entry(key.clone()).or_default() += 1;
        OpenText {
            texts: self.clone(),
            key,
            position: 0,
        }
    }

    async fn get(&self, key: &Key) -> Result<Arc<String>, Error> {
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
        let kept = &mut self.texts().kept;
        let place = kept.iter().position(|(other, _)| other == key)?;
        let used = kept.remove(place)?;
        let text = Arc::clone(&used.1);
        kept.push_back(used);
        Some(text)
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.0.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LargeTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeTexts").finish_non_exhaustive()
    }
}

/// Form of a text in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// The text is JSON.
    Json,
    /// The text is the content of a JSON string.
    Quoted,
    /// The text is a JSON object without spaces around it, of which the members are wanted.
    Members,
}

impl TextForm {
    /// Length of the next piece of a text, in bytes. Quotes make a text up to six times as long.
    fn step(self) -> usize {
        match self {
            Self::Json | Self::Members => PIECE_BYTES,
            Self::Quoted => PIECE_BYTES / 6,
        }
    }
}

/// Text that an answer is made of. Nothing of it is kept once the answers that it is open for have ended.
#[derive(Debug)]
pub(crate) struct OpenText {
    texts: LargeTexts,
    key: Key,
    position: usize,
}

impl OpenText {
    /// Appends the next piece to `into`. Returns true at the end of the text.
    pub(crate) async fn append(&mut self, form: TextForm, into: &mut Vec<u8>) -> Result<bool, Error> {
        let text = self.texts.get(&self.key).await?;
        let end = text.floor_char_boundary(self.position.saturating_add(form.step()));
        let wanted = match form {
            TextForm::Json | TextForm::Quoted => self.position..end,
            TextForm::Members => self.position.max(1)..end.min(text.len().saturating_sub(1)),
        };
        let piece = text
            .get(wanted)
            .ok_or_else(|| Error::Internal("a stored text became another one".to_owned()))?;
        match form {
            TextForm::Json | TextForm::Members => into.extend_from_slice(piece.as_bytes()),
            TextForm::Quoted => {
                // The text may be a part of a line.
                let quoted =
                    sortie_api::json::to_line(piece).map_err(|error| Error::Internal(error.to_string()))?;
                let within = quoted.get(1..quoted.len() - 1).unwrap_or_default();
                into.extend_from_slice(within.as_bytes());
            }
        }
        self.position = end;
        Ok(end == text.len())
    }
}

impl Drop for OpenText {
    fn drop(&mut self) {
        let mut texts = self.texts.texts();
        let others = texts.open.get_mut(&self.key).map_or(0, |open| {
            *open = open.saturating_sub(1);
            *open
        });
        if others == 0 {
            texts.open.remove(&self.key);
            texts.kept.retain(|(key, _)| *key != self.key);
        }
    }
}
