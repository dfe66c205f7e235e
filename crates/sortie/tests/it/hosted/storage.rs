//! The limit of what an organization has stored (`docs/FILES.md#limits`).

use crate::prelude::*;

both_databases![
    an_upload_beyond_the_limit_is_refused_and_two_at_once_do_not_pass_it,
    an_artifact_beyond_the_limit_is_skipped,
];

/// A node on which an organization stores 1,000 bytes.
fn limited() -> NodeOptions {
    NodeOptions::default().env("SORTIE_ORGANIZATION_STORAGE_BYTES", "1000")
}

fn upload(client: &Client, name: &str, content: &[u8]) -> Pending {
    let head = format!("form-data; name=\"file\"; filename=\"{name}\"");
    client.send_form(&[(&head, content)])
}

async fn an_upload_beyond_the_limit_is_refused_and_two_at_once_do_not_pass_it(database: Database) -> Checked {
    let (_node, client) = started_with(database, limited()).await?;
    upload(&client, "a", &[1; 600]).expect(201).await?;
    let refused = upload(&client, "b", &[2; 600]).refused("conflict").await?;
    ensure!(refused.error.contains("limit of stored bytes"), "{refused:?}");
    upload(&client, "same", &[1; 600]).expect(201).await?;
    for round in 0..5_u8 {
        // 400 bytes are left, minus one in each round.
        let (first, second) = (vec![10 + round; 300], vec![100 + round; 300]);
        let names = [format!("first {round}"), format!("second {round}")];
        let (one, two) = tokio::join!(
            upload(&client, &names[0], &first),
            upload(&client, &names[1], &second)
        );
        let taken = [one?.status, two?.status]
            .iter()
            .filter(|status| **status == 201)
            .count();
        assert_eq!(taken, usize::from(round == 0), "round {round}");
    }
    Ok(())
}

async fn an_artifact_beyond_the_limit_is_skipped(database: Database) -> Checked {
    let node = node_with(database, limited()).await?;
    let script = "mkdir outputs; head -c 900 /dev/zero >outputs/a; head -c 500 /dev/zero | tr '\\0' x >outputs/b; \
                  head -c 50 /dev/zero >outputs/c";
    let (events, run) = node.client()?.complete(&commands(&[script])).await?;
    assert_ended!(run, Succeeded);
    let kept: Vec<_> = run
        .artifacts
        .iter()
        .map(|artifact| artifact.path.as_str())
        .collect();
    assert_eq!(kept, ["a", "c"]);
    let skipped: Vec<_> = of_kind(&events, "artifact_skipped")
        .into_iter()
        .map(data)
        .collect();
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0]["path"], "b");
    let reason = skipped[0]["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("limit of stored bytes"), "{reason}");
    Ok(())
}
