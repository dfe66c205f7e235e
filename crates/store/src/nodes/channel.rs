//! Channel between the nodes of one database. A hint reaches every other node that listens at that moment.

use tokio::sync::{mpsc, oneshot};

pub use crate::db::channel::{ChannelMessage, LONGEST_HINT};
use crate::{
    Error, Result, Store,
    db::{Db, channel::OutgoingHint},
};

/// Sends hints to the other nodes of the database.
pub struct Speaker {
    // Dropped before the database, which ends its thread for the channel.
    say: mpsc::Sender<OutgoingHint>,
    _db: Db,
}

impl Speaker {
    /// Sends a hint of at most [`LONGEST_HINT`] bytes to all nodes that listen now. Returns when the database
    /// has accepted it. After an error, possibly no node has received the hint.
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
    /// System: opens the channel between the nodes of this database. `None` if only one node can use the
    /// database (`SQLite`). The channel uses a separate connection, which reconnects after a loss. A hint is
    /// lost if no node listens, so it may only point to data that the store has.
    pub fn channel(&self) -> Result<Option<(Speaker, mpsc::Receiver<ChannelMessage>)>> {
        Ok(self.db.channel()?.map(|(say, heard)| {
            let speaker = Speaker {
                say,
                _db: self.db.clone(),
            };
            (speaker, heard)
        }))
    }
}
