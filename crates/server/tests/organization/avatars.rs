//! Pictures of people: upload, who sees them, limits.

use sortie_testkit::{
    Answer, Bytes, Client,
    http::{HeaderValue, Method},
};

use crate::rig::Rig;

crate::settings::everywhere! {
    a_picture_is_seen_by_people_of_the_same_organization,
    a_file_that_is_no_picture_is_refused,
    a_person_uploads_twenty_pictures_an_hour,
}

/// Text of a PNG that is no part of the picture.
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

async fn upload(client: &Client, kind: &'static str, file: Vec<u8>) -> Answer {
    let client = client
        .clone()
        .with_header("content-type", HeaderValue::from_static(kind));
    client
        .send(Method::PUT, "/v1/me/avatar", Bytes::from(file))
        .await
        .unwrap()
}

fn url(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let user = answer.json().unwrap();
    user["avatar_url"].as_str().unwrap().to_owned()
}

async fn a_picture_is_seen_by_people_of_the_same_organization() {
    let rig = Rig::start().await;
    let owner = &rig.owner.client;
    let first = url(&upload(owner, "image/png", png(1)).await);
    let path = first.strip_prefix(&rig.org_url).unwrap().to_owned();
    assert!(path.starts_with(&format!("/v1/users/{}/avatar?v=", rig.owner.user)));
    for viewer in [owner, &rig.member.client] {
        let shown = viewer.get(&path).await.unwrap().expect(200).unwrap();
        assert_eq!(shown.header("content-type").unwrap(), "image/png");
        assert_eq!(shown.header("x-content-type-options").unwrap(), "nosniff");
        assert_eq!(
            shown.header("content-security-policy").unwrap(),
            "sandbox; default-src 'none'"
        );
        assert!(!shown.body.windows(SECRET.len()).any(|part| part == SECRET));
    }
    let stranger = rig.stranger.client.get(&path).await.unwrap();
    stranger.failure(404, "not_found").unwrap();
    let members = format!("/v1/organizations/{}/members", rig.ours);
    let listed = rig.admin.client.get(&members).await.unwrap();
    assert!(listed.text().contains(&first), "{}", listed.text());

    let second = url(&upload(owner, "image/png", png(2)).await);
    assert_ne!(first, second);
    let me = owner.get("/v1/auth/me").await.unwrap().json().unwrap();
    assert_eq!(me["avatar_url"], second);
    let gone = owner
        .send(Method::DELETE, "/v1/me/avatar", Bytes::new())
        .await
        .unwrap();
    gone.expect(204).unwrap();
    rig.member
        .client
        .get(&path)
        .await
        .unwrap()
        .failure(404, "not_found")
        .unwrap();
    rig.end().await;
}

async fn a_file_that_is_no_picture_is_refused() {
    let rig = Rig::start().await;
    let member = &rig.member.client;
    for (kind, file, status, code) in [
        ("image/gif", png(1), 400, "invalid_request"),
        ("application/json", png(1), 400, "invalid_request"),
        ("image/jpeg", png(1), 400, "invalid_request"),
        ("image/png", b"<script>".to_vec(), 400, "invalid_request"),
        ("image/png", vec![0; 256 * 1024 + 1], 413, "payload_too_large"),
    ] {
        upload(member, kind, file).await.failure(status, code).unwrap();
    }
    rig.end().await;
}

async fn a_person_uploads_twenty_pictures_an_hour() {
    let rig = Rig::start().await;
    for shade in 1..=20 {
        upload(&rig.member.client, "image/png", png(shade))
            .await
            .expect(200)
            .unwrap();
    }
    let refused = upload(&rig.member.client, "image/png", png(21)).await;
    refused.failure(429, "rate_limited").unwrap();
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() <= 4_200);
    upload(&rig.admin.client, "image/png", png(1))
        .await
        .expect(200)
        .unwrap();
    rig.clock.set(crate::rig::AT + std::time::Duration::from_mins(70));
    upload(&rig.member.client, "image/png", png(21))
        .await
        .expect(200)
        .unwrap();
    rig.end().await;
}
