//! `sortie master-key`: lists the keys and the values that each seals, and seals everything again with a new key.

use std::collections::BTreeMap;

use sortie_api::master_key::{MasterKeys, Reseal};

use super::Context;
use crate::{
    args::{InstallationArgs, MasterKeyCommand},
    client::{Client, get, path_of, post},
    failure::{Exit, Result},
    render::{Cell, Look, Record, grid, maybe, some},
    terminal,
};

pub(super) async fn execute(context: &Context, command: MasterKeyCommand) -> Result<Exit> {
    match command {
        MasterKeyCommand::Status(args) => status(context, &args).await,
        MasterKeyCommand::Reseal(args) => reseal(context, &args).await,
    }
}

async fn status(context: &Context, args: &InstallationArgs) -> Result<Exit> {
    let found = context.call(args, master_keys).await?;
    show(&found, args)
}

async fn reseal(context: &Context, args: &InstallationArgs) -> Result<Exit> {
    let (done, found) = context.call(args, reseal_all).await?;
    terminal::note(&format!(
        "{} values looked at, {} sealed again, {} left to who wrote them at the same time, {} that do not open",
        done.looked_at, done.resealed, done.changed_meanwhile, done.unreadable
    ));
    let shown = show(&found, args)?;
    let left = left_to_seal(&done, &found);
    if left > 0 {
        terminal::note(&format!(
            "IT IS NOT DONE: {left} values are not sealed with the first key of this node, or do not open. Put the same key \
             first on every node, and those that are named as missing behind it; then do it again",
        ));
        return Ok(Exit::Failed);
    }
    Ok(shown)
}

/// Number of values that are not sealed with the node's first key, so that an old key is still needed.
fn left_to_seal(done: &Reseal, found: &MasterKeys) -> i64 {
    let newest = found.keys.first();
    let others = found.sealed.iter().filter(|sealed| Some(&sealed.key) != newest);
    let others: i64 = others.map(|sealed| sealed.values).sum();
    others.max(done.unreadable)
}

/// Returns the keys and the number of values that each seals, summed over all pages.
async fn master_keys(client: &Client) -> Result<MasterKeys> {
    let path = client.on_all_nodes("master-key");
    let mut found: MasterKeys = client.ask(get(&path)).await?;
    while !found.next_cursor.is_empty() {
        let query = [("cursor", std::mem::take(&mut found.next_cursor))];
        let page: MasterKeys = client.ask(get(path_of(&path, &query))).await?;
        found.sealed.extend(page.sealed);
        found.next_cursor = page.next_cursor;
    }
    Ok(found)
}

/// Seals every page again. Returns the sums and the state afterwards.
async fn reseal_all(client: &Client) -> Result<(Reseal, MasterKeys)> {
    let path = client.on_all_nodes("master-key/reseal");
    let page = async |cursor: String| -> Result<Reseal> {
        client.ask(post(path_of(&path, &[("cursor", cursor)]))).await
    };
    let mut done = page(String::new()).await?;
    while !done.next_cursor.is_empty() {
        let page = page(done.next_cursor).await?;
        done = Reseal {
            looked_at: done.looked_at + page.looked_at,
            resealed: done.resealed + page.resealed,
            changed_meanwhile: done.changed_meanwhile + page.changed_meanwhile,
            unreadable: done.unreadable + page.unreadable,
            next_cursor: page.next_cursor,
        };
    }
    Ok((done, master_keys(client).await?))
}

/// Fails if a node cannot open some of the values.
fn show(found: &MasterKeys, args: &InstallationArgs) -> Result<Exit> {
    args.render.one(found)?;
    Ok(if keys(found).values().any(Key::is_lost) {
        Exit::Failed
    } else {
        Exit::Success
    })
}

/// Key, and the facts known of it.
#[derive(Debug, Default)]
struct Key {
    values: i64,
    seals_on: Vec<String>,
    opens_on: Vec<String>,
    missing_on: Vec<String>,
}

impl Key {
    fn is_lost(&self) -> bool {
        self.values > 0 && !self.missing_on.is_empty()
    }

    fn verdict(&self) -> String {
        if self.is_lost() {
            format!("NEEDED, and missing on {}", self.missing_on.join(", "))
        } else if !self.seals_on.is_empty() {
            "in use".to_owned()
        } else if self.values > 0 {
            "needed: `sortie master-key reseal`".to_owned()
        } else {
            "can be dropped: nothing needs it".to_owned()
        }
    }
}

fn keys(found: &MasterKeys) -> BTreeMap<&str, Key> {
    let mut keys: BTreeMap<&str, Key> = BTreeMap::new();
    for sealed in &found.sealed {
        keys.entry(&sealed.key).or_default().values += sealed.values;
    }
    for node in &found.nodes {
        if let Some(first) = node.keys.first() {
            keys.entry(first).or_default().seals_on.push(node.name.clone());
        }
        for id in &node.keys {
            keys.entry(id).or_default().opens_on.push(node.name.clone());
        }
    }
    for (id, key) in &mut keys {
        key.missing_on = found
            .nodes
            .iter()
            .filter(|node| !node.keys.iter().any(|has| has == id))
            .map(|node| node.name.clone())
            .collect();
    }
    keys
}

impl Record for MasterKeys {
    fn text(&self, look: &Look) -> String {
        let keys = keys(self);
        let rows = keys.iter().map(|(id, key)| {
            [
                some(id),
                some(key.values),
                listed(&key.seals_on),
                listed(&key.opens_on),
                some(key.verdict()),
            ]
        });
        grid(["KEY", "VALUES", "SEALS ON", "OPENS ON", ""], rows, look)
    }
}

fn listed(names: &[String]) -> Option<Cell> {
    maybe((!names.is_empty()).then(|| names.join(", ")))
}

#[cfg(test)]
mod tests {
    use sortie_api::master_key::{NodeKeys, SealedValues};

    use super::*;

    #[test]
    fn it_is_done_when_all_is_sealed_with_the_first_key_and_opens() {
        let done = |unreadable| Reseal {
            looked_at: 9,
            resealed: 9,
            changed_meanwhile: 0,
            unreadable,
            next_cursor: String::new(),
        };
        let found = |keys: &[&str]| MasterKeys {
            keys: vec!["new".to_owned(), "old".to_owned()],
            nodes: Vec::new(),
            sealed: keys
                .iter()
                .map(|key| SealedValues {
                    key: (*key).to_owned(),
                    place: "connection.tokens".to_owned(),
                    values: 2,
                })
                .collect(),
            next_cursor: String::new(),
        };
        assert_eq!(left_to_seal(&done(0), &found(&[])), 0);
        assert_eq!(left_to_seal(&done(0), &found(&["new", "new"])), 0);
        assert_eq!(left_to_seal(&done(0), &found(&["new", "old", "lost"])), 4);
        assert_eq!(left_to_seal(&done(3), &found(&["new", "lost"])), 3);
        // Of the first key, and damaged.
        assert_eq!(left_to_seal(&done(1), &found(&["new"])), 1);
    }

    #[test]
    fn each_key_says_what_may_become_of_it() {
        let node = |name: &str, keys: &[&str]| NodeKeys {
            name: name.to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        };
        let sealed = |key: &str| SealedValues {
            key: key.to_owned(),
            place: "connection.tokens".to_owned(),
            values: 2,
        };
        let found = MasterKeys {
            keys: Vec::new(),
            nodes: vec![
                node("a", &["new", "old", "older"]),
                node("b", &["new", "old", "older"]),
            ],
            sealed: vec![sealed("old"), sealed("old"), sealed("lost")],
            next_cursor: String::new(),
        };
        let keys = keys(&found);
        let verdicts: Vec<(&str, i64, String)> = keys
            .iter()
            .map(|(id, key)| (*id, key.values, key.verdict()))
            .collect();
        let said = |text: &str| text.to_owned();
        assert_eq!(
            verdicts,
            [
                ("lost", 2, said("NEEDED, and missing on a, b")),
                ("new", 0, said("in use")),
                ("old", 4, said("needed: `sortie master-key reseal`")),
                ("older", 0, said("can be dropped: nothing needs it")),
            ]
        );
    }
}
