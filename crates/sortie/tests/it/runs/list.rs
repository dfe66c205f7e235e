//! `GET /v1/runs` (`docs/API.md#lists`).

use sortie_api::RunPage;

use crate::prelude::*;

both_databases![
    without_a_limit_the_100_most_recent_runs_are_a_plain_array,
    pages_hold_every_run_once_newest_first_also_while_new_ones_come,
    a_status_filter_lists_only_runs_of_that_status,
    a_cursor_is_valid_on_every_node_of_its_installation_and_on_no_other,
];

/// Creates runs that end at once. Returns their ids, newest first.
async fn some(client: &Client, count: usize) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(client.create_id(&plain(&n.to_string())).await?);
    }
    ids.reverse();
    Ok(ids)
}

async fn page(client: &Client, query: &str) -> anyhow::Result<RunPage> {
    client.get(&format!("/v1/runs?{query}")).read(200).await
}

async fn without_a_limit_the_100_most_recent_runs_are_a_plain_array(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    assert_eq!(client.get("/v1/runs").expect(200).await?.text(), "[]");
    let ids = some(&client, 103).await?;
    let listed: Vec<String> = client
        .list("")
        .await?
        .iter()
        .map(|run| run.id.to_string())
        .collect();
    assert_eq!(listed, ids[..100]);
    Ok(())
}

/// Every page of a walk; each has at least one run. `between` is called before each further page.
async fn walk(
    client: &Client,
    limit: usize,
    between: impl AsyncFn() -> Checked,
) -> anyhow::Result<Vec<RunPage>> {
    let mut pages = vec![page(client, &format!("limit={limit}")).await?];
    while let Some(cursor) = pages
        .last()
        .map(|page| page.next_cursor.clone())
        .filter(|cursor| !cursor.is_empty())
    {
        between().await?;
        pages.push(page(client, &format!("limit={limit}&cursor={cursor}")).await?);
    }
    for page in &pages {
        ensure!(
            !page.items.is_empty() && page.items.len() <= limit,
            "a page of {}",
            page.items.len()
        );
    }
    Ok(pages)
}

async fn pages_hold_every_run_once_newest_first_also_while_new_ones_come(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let ids = some(&client, 7).await?;
    let listed = |pages: &[RunPage]| -> Vec<String> {
        pages
            .iter()
            .flat_map(|page| &page.items)
            .map(|run| run.id.to_string())
            .collect()
    };
    for (limit, count) in [(1, 7), (2, 4), (3, 3), (6, 2), (7, 1), (8, 1), (100, 1)] {
        let pages = walk(&client, limit, async || Ok(())).await?;
        assert_eq!(
            (pages.len(), listed(&pages)),
            (count, ids.clone()),
            "pages of {limit}"
        );
    }
    // Runs that are created during the walk are newer than the first page and shift nothing.
    let pages = walk(&client, 2, async || {
        client.create(&plain("later")).await.map(|_| ())
    })
    .await?;
    assert_eq!(listed(&pages), ids);
    // A cursor alone enables pagination as well.
    let rest = page(&client, &format!("cursor={}", pages[0].next_cursor)).await?;
    assert_eq!(rest.items.len(), 5);
    Ok(())
}

async fn a_status_filter_lists_only_runs_of_that_status(database: Database) -> Checked {
    let (_node, client) = started(database).await?;
    let (_, succeeded) = client.complete(&plain("x")).await?;
    let (_, failed) = client.complete(&commands(&["false"])).await?;
    let running = at_work(&client).await?;
    let expected = [
        (RunStatus::Succeeded, succeeded.id),
        (RunStatus::Failed, failed.id),
        (RunStatus::Running, running.id),
    ];
    for status in RunStatus::ALL {
        let listed: Vec<_> = client
            .list(&format!("status={status}"))
            .await?
            .iter()
            .map(|run| run.id)
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .filter(|(of, _)| *of == status)
            .map(|(_, id)| *id)
            .collect();
        assert_eq!(listed, expected, "{status}");
    }
    let other = client.list("schedule=sched_01hf7yat31e4ar9bcdefghjkmn").await?;
    assert!(other.is_empty());
    Ok(())
}

/// `docs/API.md#lists`: a cursor survives restarts, and is valid on every node of the database but in no other
/// installation.
async fn a_cursor_is_valid_on_every_node_of_its_installation_and_on_no_other(database: Database) -> Checked {
    let mut node = node(database).await?;
    let ids = some(&node.client()?, 3).await?;
    let cursor = page(&node.client()?, "limit=1").await?.next_cursor;
    let query = format!("limit=1&cursor={cursor}");
    let continues = async |client: Client| -> Checked {
        let items = page(&client, &query).await?.items;
        assert_eq!(items.first().map(|run| run.id.to_string()), ids.get(1).cloned());
        Ok(())
    };
    if database == Database::Postgres {
        let other = node.beside().await?;
        continues(other.client()?).await?;
        // A cursor of the other node, too.
        assert_eq!(page(&other.client()?, "limit=1").await?.next_cursor, cursor);
    }
    node.stop().await?;
    node.restart().await?;
    continues(node.client()?).await?;
    // The same organization and runs in another installation.
    node.stop().await?;
    node.meddle("DELETE FROM installation").await?;
    node.restart().await?;
    let refused = node.client()?.get(&format!("/v1/runs?{query}")).await?;
    let refusal = refused.refused("invalid_request")?;
    assert!(refusal.error.starts_with("cursor: "), "{}", refusal.error);
    page(&node.client()?, "limit=1").await?;
    Ok(())
}

/// `docs/API.md#lists`: 400 for an invalid `status`, `schedule`, `limit` or `cursor`, and the message names it.
#[tokio::test]
async fn an_invalid_query_is_refused_by_name() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for (query, name) in rows! {
        "limit=0", "limit";
        "limit=101", "limit";
        "limit=-1", "limit";
        "limit=ten", "limit";
        "limit=", "limit";
        "limit=1.5", "limit";
        "limit=99999999999999999999", "limit";
        "status=done", "status";
        "status=", "status";
        "status=SUCCEEDED", "status";
        "schedule=x", "schedule";
        "schedule=run_01hf7yat31e4ar9bcdefghjkmn", "schedule";
        "cursor=x", "cursor";
        "cursor=%00", "cursor";
        "cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "cursor";
        "limit=1&limit=2", "limit";
    } {
        let answer = client.get(&format!("/v1/runs?{query}")).await?;
        let refusal = answer
            .refused("invalid_request")
            .with_context(|| query.to_owned())?;
        assert!(refusal.error.contains(name), "{query}: {}", refusal.error);
    }
    Ok(())
}

/// `docs/API.md#lists`: a cursor is valid only unchanged and with the same filters.
#[tokio::test]
async fn a_cursor_cannot_be_changed_nor_used_with_other_filters() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    for _ in 0..3 {
        client.complete(&plain("x")).await?;
    }
    let cursor = page(&client, "limit=1&status=succeeded").await?.next_cursor;
    page(&client, &format!("limit=2&status=succeeded&cursor={cursor}")).await?;
    let refused = async |query: String| -> Checked {
        let refusal = client
            .get(&format!("/v1/runs?{query}"))
            .refused("invalid_request")
            .await;
        assert!(
            refusal.with_context(|| query.clone())?.error.contains("cursor"),
            "{query}"
        );
        Ok(())
    };
    for other in [
        "",
        "&status=failed",
        "&status=succeeded&schedule=sched_01hf7yat31e4ar9bcdefghjkmn",
    ] {
        refused(format!("limit=1&cursor={cursor}{other}")).await?;
    }
    for (at, byte) in cursor.bytes().enumerate() {
        let mut changed = cursor.clone().into_bytes();
        changed[at] = if byte == b'A' { b'B' } else { b'A' };
        refused(format!("status=succeeded&cursor={}", String::from_utf8(changed)?)).await?;
    }
    refused(format!("status=succeeded&cursor={}", &cursor[..cursor.len() - 1])).await?;
    refused(format!("status=succeeded&cursor={cursor}A")).await?;
    Ok(())
}

/// `docs/API.md#lists`.
#[tokio::test]
async fn a_page_has_items_and_next_cursor_and_nothing_else() -> Checked {
    let node = node(Database::Sqlite).await?;
    let page = node.client()?.get("/v1/runs?limit=5").json(200).await?;
    assert_eq!(page, serde_json::json!({"items": [], "next_cursor": ""}));
    assert!(matches!(page, Value::Object(fields) if fields.len() == 2));
    Ok(())
}
