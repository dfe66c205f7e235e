//! The channel between the nodes of one database: what one says all others hear, if they listen just then.

use tokio::sync::{mpsc, oneshot};

use crate::{
    Store,
    db::Db,
    types::{Error, Result},
};

/// Longest text that is said at once, in bytes: the payload of a `NOTIFY` is shorter than 8,000.
pub const LONGEST_SAID: usize = 7_999;

/// What comes from other nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// What another node has said.
    Text(String),
    /// Others may have said something that was not heard: the connection is new, or too much came at once.
    Gap,
}

/// A text on its way out, and who waits for it to be said.
pub(crate) struct OutgoingHint {
    pub(crate) text: String,
    pub(crate) done: oneshot::Sender<Result<()>>,
}

impl OutgoingHint {
    pub(crate) fn answer(self, outcome: Result<()>) {
        // Who does not wait any more needs no answer.
        let _nobody = self.done.send(outcome);
    }
}

/// Says something to the other nodes of the database.
pub struct Speaker {
    // Dropped before the database, whose thread for the channel ends with it.
    say: mpsc::Sender<OutgoingHint>,
    _db: Db,
}

impl Speaker {
    /// Returns when the database has taken the text, of [`LONGEST_SAID`] bytes at most, for all who listen now. An error
    /// means that nobody may have heard it.
    pub async fn say(&self, text: String) -> Result<()> {
        let (done, answer) = oneshot::channel();
        let closed = || Error::Unavailable("the channel between nodes is closed".to_owned());
        self.say
            .send(OutgoingHint { text, done })
            .await
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl Store {
    /// System: the channel between the nodes of this database; none where there is one node alone (`SQLite`). It has a
    /// connection of its own, which is made again whenever it is lost. What is said is lost where nobody listens: it may
    /// only ever be a hint at what the store has.
    pub fn channel(&self) -> Result<Option<(Speaker, mpsc::Receiver<Heard>)>> {
        Ok(self.db.channel()?.map(|(say, heard)| {
            let speaker = Speaker {
                say,
                _db: self.db.clone(),
            };
            (speaker, heard)
        }))
    }
}
