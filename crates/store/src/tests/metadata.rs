//! Metadata of runs: it is stored with the run, and lists find runs by one pair or by several.

use sortie_api::Metadata;
use sortie_testkit::list;

use super::{indexes, prelude::*};
use crate::runs::Undeletable;

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    pairs.collect()
}

fn filter(pairs: &[(&str, &str)]) -> RunFilter {
    RunFilter {
        metadata: metadata(pairs),
        limit: 10,
        ..RunFilter::default()
    }
}

async fn add(fixture: &Fixture, org: OrgId, pairs: &[(&str, &str)], tags: &[&str]) -> RunId {
    let mut run = fixture.new_run(org);
    run.labels.metadata = metadata(pairs);
    run.labels.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let id = run.id;
    fixture.created(run).await;
    id
}

async fn found(fixture: &Fixture, org: OrgId, filter: RunFilter) -> Vec<RunId> {
    let page = fixture.store.list_runs(org, filter).await.unwrap();
    page.items.iter().map(|listed| listed.run.id).collect()
}

both! {
    async fn runs_are_found_by_each_pair_and_by_several(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId) {
        let first = add(fixture, org, &[("customer", "c-1"), ("plan", "free")], &["nightly"]).await;
        let second = add(fixture, org, &[("customer", "c-1"), ("plan", "pro")], &["nightly"]).await;
        let third = add(fixture, org, &[("customer", "c-2"), ("plan", "pro")], &[]).await;
        let plain = add(fixture, org, &[], &[]).await;
        add(fixture, other, &[("customer", "c-1")], &[]).await;
        assert_eq!(fixture.get(org, first).await.metadata, metadata(&[("customer", "c-1"), ("plan", "free")]));
        assert!(fixture.get(org, plain).await.metadata.is_empty());
        for (pairs, expected) in [
            (list![("customer", "c-1")], vec![second, first]),
            (list![("plan", "pro")], vec![third, second]),
            (list![("plan", "c-1")], vec![]),
            (list![("plan", "")], vec![]),
            (list![("pla", "npro")], vec![]),
        ] {
            assert_eq!(found(fixture, org, filter(&pairs)).await, expected, "{pairs:?}");
        }
        let both = filter(&[("customer", "c-1"), ("plan", "pro")]);
        assert_eq!(found(fixture, org, both.clone()).await, [second]);
        let three = RunFilter { tag: Some("nightly".to_owned()), ..both.clone() };
        assert_eq!(found(fixture, org, three.clone()).await, [second]);
        let none = RunFilter { tag: Some("weekly".to_owned()), ..both.clone() };
        assert!(found(fixture, org, none).await.is_empty());
        let named = RunFilter { ids: vec![first, second, third], ..three.clone() };
        assert_eq!(found(fixture, org, named).await, [second]);
        let tagged = RunFilter { tag: Some("nightly".to_owned()), ..filter(&[("plan", "free")]) };
        assert_eq!(found(fixture, org, tagged).await, [first]);
        fixture.claim(node, 1).await;
        let starting = vec![RunStatus::Starting];
        let by_status = RunFilter { statuses: starting, ..filter(&[("customer", "c-1")]) };
        assert_eq!(found(fixture, org, by_status).await, [first]);
        let queued = RunFilter { statuses: vec![RunStatus::Queued], ..both };
        assert_eq!(found(fixture, org, queued).await, [second]);
    }

    async fn every_character_of_a_pair_is_compared(fixture: &Fixture, org: OrgId) {
        let odd = list![
            ("a", "b"), ("a", "B"), ("a", "b "), ("a=", "b"), ("a", "=b"), ("ä", "\u{1f}b"), ("\"a\"", "'b\\"),
            ("a%", "b_"), ("a,b", "c,\"d\":\"e\""), ("😀", "line\nline"), ("a", ""),
        ];
        let mut ids = Vec::new();
        for pair in odd {
            ids.push(add(fixture, org, &[pair], &[]).await);
        }
        for (pair, id) in odd.iter().zip(ids) {
            assert_eq!(found(fixture, org, filter(&[*pair])).await, [id], "{pair:?}");
            assert_eq!(fixture.get(org, id).await.metadata, metadata(&[*pair]));
        }
        // A tag is no pair, whatever its characters.
        add(fixture, org, &[], &["tag=b"]).await;
        assert!(found(fixture, org, filter(&[("tag", "b")])).await.is_empty());
        let tag = RunFilter { tag: Some("a".to_owned()), limit: 10, ..RunFilter::default() };
        assert!(found(fixture, org, tag).await.is_empty());
    }

    async fn the_longest_pairs_are_stored_and_found(fixture: &Fixture, org: OrgId) {
        // Four bytes each, and no compression that makes them fit into an entry of an index.
        let text = |length: u32, seed: u32| -> String {
            let letters = (0..length).map(|i| 0x2_0000 + (i * 7_919 + seed * 104_729) % 40_000);
            letters.filter_map(char::from_u32).collect()
        };
        let pairs: Vec<(String, String)> = (0..16).map(|seed| (text(64, seed), text(512, seed + 16))).collect();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let id = add(fixture, org, &pairs, &[]).await;
        assert_eq!(found(fixture, org, filter(&pairs)).await, [id]);
        assert_eq!(fixture.get(org, id).await.metadata, metadata(&pairs));
    }

    async fn deleted_runs_leave_no_entry(fixture: &Fixture, org: OrgId, node: NodeId) {
        let id = add(fixture, org, &[("customer", "c-1"), ("plan", "pro")], &["red"]).await;
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run_label").await, 3);
        let fence = fixture.start(fixture.claim_one(node).await.fence).await.unwrap();
        assert_eq!(fence.run, id);
        fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        let now = fixture.now();
        let expiry = Expiry { org, finished_before: now, created_before: now, check_at: now, open_callbacks: OpenCallbacks::Wait };
        let batch = Batch { runs: 10, events: 10 };
        let deleted = fixture.store.delete_expired_runs(expiry, batch, &mut Undeletable::default()).await.unwrap();
        assert_eq!((deleted.runs, fixture.count("SELECT COUNT(*) FROM run_label").await), (1, 0));
    }

    async fn pages_by_two_common_pairs_have_every_match_once(fixture: &Fixture, org: OrgId) {
        indexes::fill(fixture, org).await;
        let add = fixture.store.db.write(|tx: &mut dyn Tx| {
            for sql in [
                "INSERT INTO run_label (org_id, label, created_at, run_id) SELECT r.org_id, $1, r.created_at, r.id FROM run r \
                 WHERE (r.created_at / 1000000) % 2 = 0",
                "INSERT INTO run_label (org_id, label, created_at, run_id) SELECT r.org_id, $1, r.created_at, r.id FROM run r \
                 WHERE (r.created_at / 1000000) % 3 = 0",
            ] {
                let label = if sql.contains("% 2") { "two\u{1f}" } else { "three\u{1f}" };
                tx.exec(sql, vals![label])?;
            }
            Ok(())
        });
        add.await.unwrap();
        let mut filter = RunFilter { limit: 400, ..filter(&[("two", ""), ("three", "")]) };
        let mut seen = Vec::new();
        loop {
            let page = fixture.store.list_runs(org, filter.clone()).await.unwrap();
            let last = page.items.last().map(|listed| (listed.run.created_at, listed.run.id));
            let is_full = page.items.len() == 400;
            seen.extend(page.items.iter().map(|listed| listed.run.created_at.as_micros() / 1_000_000 % 6));
            filter.before = if is_full { last } else { page.stopped_at };
            if filter.before.is_none() {
                break;
            }
        }
        assert!(seen.iter().all(|rest| *rest == 0) && seen.len().abs_diff(10_000 / 6) <= 1, "{}", seen.len());
    }
}
