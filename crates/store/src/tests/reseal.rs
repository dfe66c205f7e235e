use super::prelude::*;
use crate::{
    installation::{NodeMasterKeys, Resealed, RowKey, SealedColumn, SealedRow},
    schedules::{SaveSchedule, SealedCallback},
};

impl Fixture {
    /// Stores a value in every column of sealed values.
    pub(super) async fn seal_everywhere(&self, org: OrgId) -> SeenTokens {
        let store = &self.store;
        store.seal_check(b"check".to_vec()).await.unwrap();
        let seen = self.authorized(org, "sealed").await;
        let connection = store.connection_by_id(org, seen.connection).await.unwrap();
        let kept = store.keep_challenge(seen, 1, b"challenge".to_vec(), None);
        assert!(kept.await.unwrap());
        let mut flow = Fixture::flow(&self.new_connection(org, "x"), 200);
        flow.connection = connection.id;
        store
            .begin_authorization(flow.clone(), self.now(), self.audit(org))
            .await
            .unwrap();
        let row = self.schedule(org).await;
        let mut spec = row.spec.clone();
        spec.callback = Some(SealedCallback {
            url: "http://a.example/".to_owned(),
            secret: b"secret".to_vec(),
        });
        let save = SaveSchedule {
            id: row.id,
            org,
            spec,
            state: row.state.clone(),
            at: self.now(),
        };
        let saved = store.update_schedule(save, row.revision, self.audit(org)).await;
        assert!(saved.unwrap());
        let mut run = self.with_callback(org, "a:1");
        run.inline = Some(InlineCredentials {
            sealed: b"inline".to_vec(),
            names: "[]".to_owned(),
        });
        store.create_run(run).await.unwrap();
        self.queued_mail(None).await;
        let person = self.person("sealed").await;
        store.enrol_totp(person, b"totp".to_vec()).await.unwrap();
        seen
    }

    /// Returns the values of a column, page by page.
    pub(super) async fn sealed(&self, column: SealedColumn) -> Vec<SealedRow> {
        let mut all: Vec<SealedRow> = Vec::new();
        loop {
            let after = all
                .last()
                .map_or(RowKey::Text(String::new()), |row| row.row.clone());
            let page = self.store.sealed_rows(column, after, 1).await.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }
}

/// Creates a new value for one that was read.
fn instead(row: &SealedRow, new: &[u8]) -> Resealed {
    Resealed {
        row: row.row.clone(),
        old: row.sealed.clone(),
        new: new.to_vec(),
    }
}

/// Columns of the migrations that hold sealed values, as `table.column`: columns of bytes that are no digest.
fn columns_of_the_migrations() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut found = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(path).unwrap();
        let mut table = String::new();
        for line in text.lines().filter(|line| !line.starts_with("--")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["CREATE", "TABLE", name, ..] => (*name).clone_into(&mut table),
                ["ALTER", "TABLE", name, "ADD", "COLUMN", column, kind, ..] if kind.starts_with("{BLOB}") => {
                    found.push(format!("{name}.{column}"));
                }
                [column, kind, ..] if kind.starts_with("{BLOB}") => found.push(format!("{table}.{column}")),
                _ => {}
            }
        }
    }
    found
}

#[test]
fn no_sealed_column_is_forgotten() {
    let digest = |name: &String| name.contains("hash") || name.ends_with("sha256");
    let mut stored: Vec<String> = columns_of_the_migrations();
    // Colleagues see each other's pictures. An attacker who can read the seed in the database gains nothing from a
    // forged cursor.
    stored.retain(|name| !digest(name) && name != "avatar.bytes" && name != "installation.seed");
    stored.sort();
    let mut known: Vec<String> = SealedColumn::ALL
        .iter()
        .map(|column| format!("{}.{}", column.table(), column.column()))
        .collect();
    known.sort();
    assert_eq!(stored, known);
}

sqlite! {
    /// A backup uses this text to check that it has the key of the database.
    async fn a_copy_has_the_text_by_which_the_master_key_is_told(fixture: &Fixture) {
        let from = fixture.sqlite_file();
        let mut copy = crate::installation::DatabaseCopy::make(&from, &from.with_extension("empty")).unwrap();
        assert_eq!(copy.seal_check().unwrap(), None);
        fixture.store.seal_check(b"check".to_vec()).await.unwrap();
        let mut copy = crate::installation::DatabaseCopy::make(&from, &from.with_extension("copy")).unwrap();
        assert_eq!(copy.seal_check().unwrap().as_deref(), Some(&b"check"[..]));
    }
}

both! {
    async fn every_sealed_value_is_found_with_its_organization_and_replaced(fixture: &Fixture, org: OrgId) {
        fixture.seal_everywhere(org).await;
        for column in SealedColumn::ALL {
            let rows = fixture.sealed(column).await;
            assert_eq!(rows.len(), 1, "{column:?}");
            let is_of_org = !matches!(column, SealedColumn::SealCheck | SealedColumn::Mail | SealedColumn::PersonTotp);
            let owner = is_of_org.then_some(org);
            assert_eq!(rows[0].org, owner, "{column:?}");
            let new = vec![instead(&rows[0], b"new")];
            assert_eq!(fixture.store.reseal(column, new, None).await.unwrap(), 1, "{column:?}");
            assert_eq!(fixture.sealed(column).await[0].sealed, b"new", "{column:?}");
        }
    }

    async fn a_value_that_was_written_meanwhile_stays(fixture: &Fixture, org: OrgId) {
        let seen = fixture.seal_everywhere(org).await;
        let column = SealedColumn::ConnectionTokens;
        let read = fixture.sealed(column).await;
        assert!(fixture.store.save_refreshed(seen, b"renewed".to_vec()).await.unwrap());
        let late = vec![instead(&read[0], b"old tokens, sealed anew")];
        assert_eq!(fixture.store.reseal(column, late, None).await.unwrap(), 0);
        assert_eq!(fixture.sealed(column).await[0].sealed, b"renewed");

        // In the other order: a node that refreshes tokens has read a version, which resealing does not change.
        let seen = SeenTokens { version: seen.version + 1, ..seen };
        let now = fixture.now();
        assert!(fixture.store.lease_refresh(seen, crate::connections::RefreshHolder(1), now, std::time::Duration::ZERO).await.unwrap());
        let read = fixture.sealed(column).await;
        let new = vec![instead(&read[0], b"sealed anew")];
        assert_eq!(fixture.store.reseal(column, new, None).await.unwrap(), 1);
        assert!(fixture.store.save_refreshed(seen, b"renewed again".to_vec()).await.unwrap());
        assert_eq!(fixture.sealed(column).await[0].sealed, b"renewed again");
    }

    async fn who_was_about_to_write_a_schedule_back_reads_it_again(fixture: &Fixture, org: OrgId) {
        fixture.seal_everywhere(org).await;
        let column = SealedColumn::ScheduleSecret;
        let read = fixture.sealed(column).await;
        let RowKey::Text(id) = read[0].row.clone() else { panic!("a schedule") };
        let before = fixture.store.get_schedule(org, id.parse().unwrap()).await.unwrap();
        let new = vec![instead(&read[0], b"new")];
        assert_eq!(fixture.store.reseal(column, new, None).await.unwrap(), 1);
        let stale = SaveSchedule {
            id: before.id,
            org,
            spec: before.spec.clone(),
            state: before.state.clone(),
            at: fixture.now(),
        };
        let audit = fixture.audit(org);
        assert!(!fixture.store.update_schedule(stale, before.revision, audit).await.unwrap());
        assert_eq!(fixture.sealed(column).await[0].sealed, b"new");
    }

    async fn nodes_say_which_master_keys_they_have(fixture: &Fixture) {
        let none = fixture.node_named("none").await;
        let ids = ["new".to_owned(), "old".to_owned()];
        fixture.node_with("told", |node| node.master_keys = ids.to_vec()).await;
        let mut found = fixture.store.node_master_keys(fixture.now()).await.unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let keys = |name: &str, ids: &[String]| NodeMasterKeys { name: name.to_owned(), ids: ids.to_vec() };
        assert_eq!(found, [keys("none", &[]), keys("told", &ids)]);
        fixture.store.deregister_node(none, fixture.now()).await.unwrap();
        assert_eq!(fixture.store.node_master_keys(fixture.now()).await.unwrap().len(), 1);
    }
}
