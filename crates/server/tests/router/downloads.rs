//! Content of `/v1/files` in whole, in part and under conditions, and the list of files.

use std::collections::BTreeSet;

use crate::{files::with, prelude::*};

#[tokio::test]
async fn content_is_sent_in_whole_in_part_or_not_at_all() {
    let rig = Rig::start().await;
    let content: Vec<u8> = (0..700_000_u32)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    let file = rig.member.upload("data.bin", &content).await.unwrap();
    let path = "/v1/files/data.bin/content";
    let tag = format!("\"{}\"", file.sha256);
    let whole = rig.member.get(path).must(200).await;
    assert!(whole.body == content);
    assert_eq!(whole.header("etag").unwrap(), tag);
    assert_eq!(whole.header("accept-ranges").unwrap(), "bytes");
    assert_eq!(whole.header("content-length").unwrap(), "700000");
    for (range, bytes, content_range) in rows! {
        "bytes=0-9", 0..10, "bytes 0-9/700000";
        "bytes=262140-262150", 262_140..262_151, "bytes 262140-262150/700000";
        "bytes=699990-", 699_990..700_000, "bytes 699990-699999/700000";
        "bytes=-7", 699_993..700_000, "bytes 699993-699999/700000";
    } {
        let part = with(&rig.member, &[("range", range)]).get(path).must(206).await;
        assert!(part.body == content[bytes], "{range}");
        assert_eq!(part.header("content-range").unwrap(), content_range);
    }
    let beyond = with(&rig.member, &[("range", "bytes=700000-")])
        .get(path)
        .await
        .unwrap();
    beyond.refused("range_not_satisfiable").unwrap();
    assert_eq!(beyond.header("content-range").unwrap(), "bytes */700000");
}

#[tokio::test]
async fn conditions_save_what_the_client_has_and_guard_what_it_wants() {
    let rig = Rig::start().await;
    let file = rig.member.upload("data.bin", vec![7; 700_000]).await.unwrap();
    let path = "/v1/files/data.bin/content";
    let tag = format!("\"{}\"", file.sha256);
    let whole = rig.member.get(path).must(200).await;
    let modified = whole.header("last-modified").unwrap().to_owned();
    let unchanged = with(&rig.member, &[("if-none-match", &tag)])
        .get(path)
        .must(304)
        .await;
    assert!(unchanged.body.is_empty());
    assert_eq!(unchanged.header("etag").unwrap(), tag);
    with(&rig.member, &[("if-modified-since", &modified)])
        .get(path)
        .must(304)
        .await;
    let other = with(&rig.member, &[("if-match", "\"other\"")])
        .get(path)
        .await
        .unwrap();
    other.refused("precondition_failed").unwrap();
    let resumed = with(&rig.member, &[("range", "bytes=1-"), ("if-range", &tag)])
        .get(path)
        .await
        .unwrap();
    assert_eq!(resumed.expect(206).unwrap().body.len(), 699_999);
    let anew = with(&rig.member, &[("range", "bytes=1-"), ("if-range", "\"other\"")])
        .get(path)
        .await
        .unwrap();
    assert_eq!(anew.expect(200).unwrap().body.len(), 700_000);

    let head = rig.member.send(Method::HEAD, path, Bytes::new()).must(200).await;
    assert_eq!(head.header("content-length").unwrap(), "700000");
    assert!(head.body.is_empty());
    let empty = rig.member.upload("empty", "").await.unwrap();
    assert_eq!(empty.size, 0);
    let answer = rig.member.get("/v1/files/empty/content").must(200).await;
    assert!(answer.body.is_empty());
}

#[tokio::test]
async fn files_are_listed_in_pages_newest_first() {
    let rig = Rig::start().await;
    let mut names = Vec::new();
    for number in 0..7 {
        rig.member.upload(&format!("{number}"), "x").await.unwrap();
        names.insert(0, format!("{number}"));
    }
    let listed = |page: &Value| -> Vec<String> {
        let files = page.as_array().unwrap().iter();
        files
            .map(|file| file["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        listed(&rig.member.get("/v1/files").await.unwrap().json().unwrap()),
        names
    );
    let (mut seen, mut path, mut cursors) = (Vec::new(), "/v1/files?limit=3".to_owned(), BTreeSet::new());
    loop {
        let page = rig.member.get(&path).must_json(200).await;
        seen.extend(listed(&page["items"]));
        let cursor = page["next_cursor"].as_str().unwrap().to_owned();
        if cursor.is_empty() {
            break;
        }
        path = format!("/v1/files?limit=3&cursor={cursor}");
        cursors.insert(cursor);
    }
    assert_eq!(seen, names);
    for cursor in &cursors {
        let path = format!("/v1/files?cursor={cursor}");
        rig.stranger.get(&path).must_refuse("invalid_request").await;
        let path = format!("/v1/runs?cursor={cursor}");
        rig.member.get(&path).must_refuse("invalid_request").await;
    }
    for query in ["limit=0", "limit=101", "limit=x", "cursor=x", "limit=1&limit=1"] {
        rig.member
            .get(&format!("/v1/files?{query}"))
            .must_refuse("invalid_request")
            .await;
    }
}
