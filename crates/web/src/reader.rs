//! The page reader: a separate process that extracts the text of untrusted content.
//!
//! The time and memory of parsers depend on the structure of a page, and checks inside of them cannot find every bad case. The
//! reader is a [helper](sortie_sandbox::Helper), so a page that crashes it affects nothing else. If the full reader fails on a
//! page, a second one extracts the bare text.

use std::{borrow::Cow, num::NonZero, sync::Arc, thread::available_parallelism, time::Duration};

use serde::{Deserialize, Serialize};
use sortie_sandbox::{Helper, HelperError, HelperLimits, helper_main};
use tokio::{
    sync::{AcquireError, Semaphore},
    time::timeout,
};
use url::Url;

use crate::{
    html::{self, Layout},
    json,
    media::{Kind, Media},
    text::{self, Part},
};

/// Argument that makes the binary a page reader.
const ARGUMENT: &str = "__page-reader";
/// Maximum number of concurrent readers, even with more processors.
const READERS: usize = 4;
/// Maximum time to wait for a free reader.
const WAIT: Duration = Duration::from_secs(30);
/// Memory limit of a reader, in bytes.
const MEMORY_BYTES: u64 = 256 << 20;
/// Maximum size of the response other than the text, in bytes: the title, with every byte escaped.
const HEAD_BYTES: usize = 8 * 1024;
/// Limits of the first reader of a text: CPU seconds and time.
const WHOLE: (u64, Duration) = (4, Duration::from_secs(20));
/// Limits of the second reader, which extracts bare text.
const BARE: (u64, Duration) = (2, Duration::from_secs(10));

/// Turns the process into a page reader and never returns if the first argument asks for it; otherwise does nothing. `main` must
/// call this first: before any thread, runtime or output.
pub fn reader_main() {
    helper_main(ARGUMENT, answer);
}

/// A body to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) media: &'a Media,
    /// URL of the body.
    pub(crate) url: &'a Url,
    pub(crate) bytes: &'a [u8],
}

/// Format of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// HTML as Markdown, JSON with indentation, other text unchanged.
    Page,
    /// HTML without its tags, other text unchanged.
    Bare,
    /// JSON with indentation, other text unchanged.
    Source,
}

/// A piece of the text of a body.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    head: Head,
    text: String,
}

impl Reading {
    /// Returns the title of the page on one line; empty if it has none.
    pub(crate) fn title(&self) -> &str {
        &self.head.title
    }

    /// Layout of a page.
    pub(crate) const fn layout(&self) -> Option<Layout> {
        self.head.layout
    }

    pub(crate) fn part(&self) -> Part<'_> {
        Part {
            text: &self.text,
            start: self.head.start,
            total: self.head.total,
        }
    }
}

/// Reason why a body could not be read. The text is for the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unread {
    /// The content crashed its reader.
    #[error("takes more memory or processor time than one page may have")]
    TooMuch,
    /// No reader became free in time.
    #[error("waited {} s for other pages: try again later", WAIT.as_secs())]
    Busy,
    /// The node cannot start readers.
    #[error("cannot be read on this node: its page reader does not start")]
    NoReader,
}

/// The page readers of a node.
#[derive(Debug)]
pub(crate) struct Readers {
    helper: Helper,
    free: Semaphore,
}

impl Readers {
    /// Creates readers from the given binary, which calls [`reader_main`] first. `None`: the current binary.
    pub(crate) fn new(binary: Option<std::path::PathBuf>) -> Self {
        let cores = available_parallelism().map_or(1, NonZero::get);
        Self {
            helper: match binary {
                Some(binary) => Helper::new(binary, ARGUMENT),
                None => Helper::of_this_binary(ARGUMENT),
            },
            free: Semaphore::new(cores.min(READERS)),
        }
    }

    /// Returns the readers for one run.
    pub(crate) fn of_a_run(self: &Arc<Self>) -> RunReaders {
        RunReaders {
            node: Arc::clone(self),
            turn: Semaphore::new(1),
        }
    }

    /// Lets one process read a body, with limits for its CPU seconds and its time.
    async fn ask(
        &self,
        body: Body<'_>,
        form: Form,
        (cpu_seconds, time): (u64, Duration),
        (start, most): (usize, usize),
    ) -> Result<Reading, Unread> {
        let job = Job {
            content_type: body.media.content_type().into(),
            url: Cow::Borrowed(body.url.as_str()),
            form,
            start,
            most,
        };
        let mut job = serde_json::to_vec(&job).map_err(|_| Unread::TooMuch)?;
        job.push(b'\n');
        let limits = HelperLimits {
            memory_bytes: MEMORY_BYTES,
            cpu_seconds,
            time,
            answer_bytes: most.saturating_add(HEAD_BYTES),
        };
        let answer = self.helper.work(&[&job, body.bytes], limits).await;
        let answer = answer.map_err(|error| {
            match error {
                HelperError::Start(_) | HelperError::NotConfined => {
                    tracing::error!(%error, binary = %self.helper.binary().display(), "page reader failed to start");
                    Unread::NoReader
                }
                HelperError::Ended(_) | HelperError::TimedOut(_) | HelperError::TooLong(_) => {
                    tracing::warn!(%error, ?form, bytes = body.bytes.len(), "page reader gave no answer");
                    Unread::TooMuch
                }
            }
        })?;
        reading(answer, most).ok_or_else(|| {
            tracing::warn!(?form, "page reader returned an invalid answer");
            Unread::TooMuch
        })
    }
}

/// The page readers for one run: one at a time, so that its pages do not delay those of other runs.
#[derive(Debug)]
pub(crate) struct RunReaders {
    node: Arc<Readers>,
    turn: Semaphore,
}

impl RunReaders {
    /// Returns the text of a body from byte `start`, at most `most` bytes.
    pub(crate) async fn read(
        &self,
        body: Body<'_>,
        form: Form,
        start: usize,
        most: usize,
    ) -> Result<Reading, Unread> {
        if body.bytes.is_empty() {
            return Ok(Reading::default());
        }
        // A run occupies at most one place in the queue of the node.
        let places = timeout(WAIT, async {
            let turn = self.turn.acquire().await?;
            Ok::<_, AcquireError>((turn, self.node.free.acquire().await?))
        });
        // The semaphores are never closed.
        let Ok(Ok(_places)) = places.await else {
            return Err(Unread::Busy);
        };
        match self.node.ask(body, form, WHOLE, (start, most)).await {
            Err(Unread::TooMuch) if form != Form::Bare => {
                self.node.ask(body, Form::Bare, BARE, (start, most)).await
            }
            read => read,
        }
    }
}

/// First line of the reader's input, before the body.
#[derive(Debug, Serialize, Deserialize)]
struct Job<'a> {
    #[serde(borrow)]
    content_type: Cow<'a, str>,
    #[serde(borrow)]
    url: Cow<'a, str>,
    form: Form,
    start: usize,
    most: usize,
}

/// First line of the reader's response, before the text.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Head {
    title: String,
    layout: Option<Layout>,
    start: usize,
    total: usize,
}

/// Parses and checks a response of a reader, because a compromised reader can send anything.
fn reading(mut answer: Vec<u8>, most: usize) -> Option<Reading> {
    let end = answer.iter().position(|byte| *byte == b'\n')?;
    let mut head: Head = serde_json::from_slice(answer.get(..end)?).ok()?;
    head.title = text::one_line(&head.title, html::TITLE_CHARS);
    let text = String::from_utf8(answer.split_off(end + 1)).ok()?;
    let is_bounded = text.len() <= most && !text.contains('\0');
    (is_bounded && head.start.checked_add(text.len())? <= head.total).then_some(Reading { head, text })
}

/// Does the work of a reader. Returns an empty response to an invalid job.
fn answer(input: &[u8]) -> Vec<u8> {
    let Some((job, body)) = split_line(input) else {
        return Vec::new();
    };
    let Ok(job) = serde_json::from_slice::<Job<'_>>(job) else {
        return Vec::new();
    };
    let Ok(url) = job.url.parse() else {
        return Vec::new();
    };
    let (title, layout, text) = text_of(&Media::new(&job.content_type), &url, body, job.form);
    let text = text::clean(text);
    let part = text::part(&text, job.start, job.most);
    let head = Head {
        title,
        layout,
        start: part.start,
        total: part.total,
    };
    let Ok(mut answer) = serde_json::to_vec(&head) else {
        return Vec::new();
    };
    answer.push(b'\n');
    answer.extend_from_slice(part.text.as_bytes());
    answer
}

fn split_line(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = input.split_at_checked(end)?;
    Some((line, rest.get(1..)?))
}

fn text_of(media: &Media, url: &Url, body: &[u8], form: Form) -> (String, Option<Layout>, String) {
    let text = media.decode(body);
    match (media.kind_of(body), form) {
        (Kind::Html, Form::Page) => {
            let page = html::read(&text, url);
            (page.title, Some(page.layout), page.markdown)
        }
        (Kind::Html, Form::Bare) => (String::new(), Some(Layout::Bare), html::bare_text(&text)),
        (Kind::Json, Form::Page | Form::Source) => (String::new(), None, json::laid_out(text)),
        (Kind::Html, Form::Source)
        | (Kind::Json, Form::Bare)
        | (Kind::Text | Kind::Unknown | Kind::Binary, _) => (String::new(), None, text),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use proptest::prelude::*;
    use tokio::time::{Instant, sleep};

    use super::*;

    fn job(form: Form, start: usize, most: usize) -> Vec<u8> {
        let job = Job {
            content_type: "text/html; charset=utf-8".into(),
            url: "https://site.example/".into(),
            form,
            start,
            most,
        };
        let mut job = serde_json::to_vec(&job).unwrap();
        job.push(b'\n');
        job
    }

    /// Starts readers that read their input and never respond.
    fn stuck(readers: usize, folder: &Path) -> Arc<Readers> {
        let binary = folder.join("stuck");
        fs::write(&binary, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o700)).unwrap();
        Arc::new(Readers {
            free: Semaphore::new(readers),
            ..Readers::new(Some(binary))
        })
    }

    async fn read_page(readers: &RunReaders) -> Option<Unread> {
        let (media, url) = (Media::new("text/html"), "https://site.example/".parse().unwrap());
        let body = Body {
            media: &media,
            url: &url,
            bytes: b"page",
        };
        readers.read(body, Form::Page, 0, 100).await.err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_takes_its_time_after_a_wait_is_told_from_one_that_had_no_reader() {
        let folder = tempfile::tempdir().unwrap();
        let readers = stuck(1, folder.path());
        let run = readers.of_a_run();
        let other = readers.free.acquire().await.unwrap();
        let wait = async {
            sleep(WAIT.saturating_sub(Duration::from_secs(1))).await;
            drop(other);
        };
        let (read, ()) = tokio::join!(read_page(&run), wait);
        assert_eq!(read, Some(Unread::TooMuch));
        let _other = readers.free.acquire().await.unwrap();
        assert_eq!(read_page(&run).await, Some(Unread::Busy));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_leaves_readers_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let readers = stuck(2, folder.path());
        let (greedy, other) = (readers.of_a_run(), readers.of_a_run());
        let many = async { tokio::join!(read_page(&greedy), read_page(&greedy), read_page(&greedy)) };
        let began = Instant::now();
        let one = async { (read_page(&other).await, began.elapsed()) };
        let (_, (read, took)) = tokio::join!(many, one);
        assert_eq!(read, Some(Unread::TooMuch));
        assert!(took < WHOLE.1 + BARE.1 + Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn an_answer_is_taken_as_it_was_given() {
        let page = "<title>T\u{7}itle</title><p>a &lt; b\0<p>c".as_bytes();
        for (form, layout, title, text) in [
            (Form::Page, Some(Layout::Article), "T itle", "a \\< b\n\nc"),
            (Form::Bare, Some(Layout::Bare), "", "T\u{7}itle a < b\u{fffd} c"),
            (
                Form::Source,
                None,
                "",
                "<title>T\u{7}itle</title><p>a &lt; b\u{fffd}<p>c",
            ),
        ] {
            let answer = answer(&[job(form, 0, 1000), page.to_vec()].concat());
            let reading = reading(answer, 1000).unwrap();
            assert_eq!((reading.title(), reading.layout()), (title, layout), "{form:?}");
            assert_eq!(reading.part().text, text, "{form:?}");
            assert_eq!(reading.part().total, text.len(), "{form:?}");
        }
    }

    #[test]
    fn answers_that_contradict_themselves_are_refused() {
        let head = |start: usize, total: usize| {
            format!("{{\"title\":\"\",\"layout\":null,\"start\":{start},\"total\":{total}}}\n")
        };
        assert!(reading(format!("{}text", head(2, 6)).into_bytes(), 4).is_some());
        for (answer, most) in [
            (String::new(), 100),
            ("\n".to_owned(), 100),
            ("text without a head".to_owned(), 100),
            (format!("{}text", head(2, 5)), 100),
            (format!("{}text", head(usize::MAX, usize::MAX)), 100),
            (format!("{}text", head(2, 6)), 3),
            (format!("{}te\0t", head(2, 6)), 100),
        ] {
            assert!(reading(answer.clone().into_bytes(), most).is_none(), "{answer}");
        }
        assert!(reading([head(0, 1).as_bytes(), b"\xff"].concat(), 100).is_none());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_the_answer_is_bounded(
            body in prop::collection::vec(any::<u8>(), 0..300),
            form in prop::sample::select(vec![Form::Page, Form::Bare, Form::Source]),
            start in 0_usize..400,
            most in 0_usize..200,
        ) {
            let answered = answer(&[job(form, start, most), body].concat());
            prop_assert!(answered.len() <= most + HEAD_BYTES);
            let reading = reading(answered, most);
            prop_assert!(reading.is_some());
        }

        #[test]
        fn no_answer_makes_the_engine_panic(answer in any::<Vec<u8>>(), most in 0_usize..200) {
            let _read = reading(answer, most);
        }
    }
}
