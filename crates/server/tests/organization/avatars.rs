//! Pictures of people: upload, visibility, limits.

use crate::prelude::*;

crate::settings::everywhere! {
    a_picture_is_seen_by_people_of_the_same_organization,
    a_file_that_is_no_picture_is_refused,
    a_person_uploads_twenty_pictures_an_hour,
}

/// Text in a PNG that does not belong to the picture.
const SECRET: &[u8] = b"taken at home";

fn chunk(kind: [u8; 4], contents: &[u8]) -> Vec<u8> {
    let mut checked = kind.to_vec();
    checked.extend_from_slice(contents);
    let mut chunk = u32::try_from(contents.len()).unwrap().to_be_bytes().to_vec();
    chunk.extend_from_slice(&checked);
    chunk.extend_from_slice(&crc32fast::hash(&checked).to_be_bytes());
    chunk
}

/// A PNG of 2 by 2 pixels of one shade, with text.
fn png(shade: u8) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    png.extend(chunk(*b"IHDR", &[0, 0, 0, 2, 0, 0, 0, 2, 8, 0, 0, 0, 0]));
    png.extend(chunk(*b"tEXt", SECRET));
    png.extend(chunk(*b"IDAT", &[shade; 20]));
    png.extend(chunk(*b"IEND", b""));
    png
}

fn upload(client: &Client, kind: &'static str, file: Vec<u8>) -> Pending {
    let client = client.with_header("content-type", kind);
    client.send(Method::PUT, "/v1/me/avatar", Bytes::from(file))
}

fn url(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let user = answer.json().unwrap();
    user["avatar_url"].as_str().unwrap().to_owned()
}

async fn a_picture_is_seen_by_people_of_the_same_organization() {
    let rig = Rig::start().await;
    let owner = &rig.owner;
    let first = url(&upload(owner, "image/png", png(1)).await.unwrap());
    let path = first.strip_prefix(&rig.org_url).unwrap().to_owned();
    assert!(path.starts_with(&format!("/v1/users/{}/avatar?v=", rig.owner.user)));
    for viewer in [owner, &rig.member] {
        let shown = viewer.get(&path).must(200).await;
        assert_eq!(shown.header("content-type").unwrap(), "image/png");
        assert_eq!(shown.header("x-content-type-options").unwrap(), "nosniff");
        assert_eq!(
            shown.header("content-security-policy").unwrap(),
            "sandbox; default-src 'none'"
        );
        assert!(!shown.body.windows(SECRET.len()).any(|part| part == SECRET));
    }
    rig.stranger.get(&path).must_refuse("not_found").await;
    let members = rig.path("/members");
    let listed = rig.admin.get(&members).await.unwrap();
    assert!(listed.text().contains(&first), "{}", listed.text());

    let second = url(&upload(owner, "image/png", png(2)).await.unwrap());
    assert_ne!(first, second);
    let me = owner.get("/v1/auth/me").await.unwrap().json().unwrap();
    assert_eq!(me["avatar_url"], second);
    owner.delete("/v1/me/avatar").must(204).await;
    rig.member.get(&path).must_refuse("not_found").await;
    rig.end().await;
}

async fn a_file_that_is_no_picture_is_refused() {
    let rig = Rig::start().await;
    let member = &rig.member;
    for (kind, file, code) in [
        ("image/gif", png(1), "invalid_request"),
        ("application/json", png(1), "invalid_request"),
        ("image/jpeg", png(1), "invalid_request"),
        ("image/png", b"<script>".to_vec(), "invalid_request"),
        ("image/png", vec![0; 256 * 1024 + 1], "payload_too_large"),
    ] {
        upload(member, kind, file).await.unwrap().refused(code).unwrap();
    }
    rig.end().await;
}

async fn a_person_uploads_twenty_pictures_an_hour() {
    let rig = Rig::start().await;
    for shade in 1..=20 {
        upload(&rig.member, "image/png", png(shade)).must(200).await;
    }
    let refused = upload(&rig.member, "image/png", png(21)).await.unwrap();
    refused.refused("rate_limited").unwrap();
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() <= 4_200);
    upload(&rig.admin, "image/png", png(1)).must(200).await;
    rig.clock.set(crate::rig::AT + std::time::Duration::from_mins(70));
    upload(&rig.member, "image/png", png(21)).must(200).await;
    rig.end().await;
}
