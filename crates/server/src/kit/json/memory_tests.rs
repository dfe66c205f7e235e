//! Memory use of hostile bodies, compared with their reservations. Each body is parsed in a separate process: memory that is
//! freed after one body would hide the use of the next.

use super::{tests::refusal_within, *};

/// Memory of a process that is not reserved: the free part of a body, errors and their texts, and rounding of the allocator.
const SLACK: u64 = 6 << 20;

/// Memory figure of this process, in bytes.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kibibytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

/// Text with as many copies of `entry`, separated by commas, as fit into the largest body.
fn filled(before: &str, entry: &str, behind: &str) -> Vec<u8> {
    let room = BODY_BYTES - before.len() - behind.len() - entry.len();
    let entries = format!("{entry},").repeat(room / (entry.len() + 1));
    format!("{before}{entries}{entry}{behind}").into_bytes()
}

/// A body with one long string.
fn long(before: &str, letters: &str, behind: &str) -> Vec<u8> {
    let times = (BODY_BYTES - before.len() - behind.len()) / letters.len();
    format!("{before}{}{behind}", letters.repeat(times)).into_bytes()
}

/// A request with a map of many entries, which all have this value.
fn map(field: &str, value: &str) -> Vec<u8> {
    use std::fmt::Write as _;

    let mut text = format!(r#"{{"prompt":"x","{field}":{{"c":{value}"#);
    for number in 0.. {
        if text.len() > BODY_BYTES - 100 {
            break;
        }
        write!(text, r#","{number}":{value}"#).unwrap();
    }
    text.push_str("}}");
    text.into_bytes()
}

async fn takes_no_more_than_is_counted(body: Vec<u8>, status: u16) {
    assert!(body.len() <= BODY_BYTES && body.len() > BODY_BYTES - 1_000);
    let counted = checked(&body).ok().unwrap().memory_bytes() as u64;
    assert!(counted <= 4 * body.len() as u64);
    // In pieces, as they arrive from a connection. The last piece is counted as well.
    let pieces: Vec<Bytes> = body.chunks(8 * 1024).map(Bytes::copy_from_slice).collect();
    drop(body);
    let pieces = pieces.into_iter().map(Ok::<_, std::convert::Infallible>);
    let body = Body::from_stream(futures_util::stream::iter(pieces));
    // Resets the peak to the current memory use.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let (before, program) = (memory("VmRSS:"), memory("RssFile:"));
    let (seen, error) = refusal_within(&BodyBudget::default(), "application/json", body).await;
    let peak = memory("VmHWM:");
    assert_eq!(seen, status, "{}", error.chars().take(200).collect::<String>());
    // Program pages that were executed for the first time do not belong to the body.
    let program = memory("RssFile:").saturating_sub(program);
    let taken = peak.saturating_sub(before + program);
    assert!(
        taken <= counted + SLACK,
        "{} MiB, counted {}",
        taken >> 20,
        counted >> 20
    );
}

macro_rules! bodies {
    ($($name:ident: $body:expr, $status:literal;)+) => {$(
        #[tokio::test]
        async fn $name() {
            takes_no_more_than_is_counted($body, $status).await;
        }
    )+};
}

bodies! {
    memory_of_a_body_of_empty_tags: filled(r#"{"prompt":"x","tags":["#, r#""""#, "]}"), 400;
    memory_of_a_body_of_short_tags: filled(r#"{"prompt":"x","tags":["#, r#""a""#, "]}"), 400;
    memory_of_a_body_of_files: filled(r#"{"prompt":"x","files":["#, r#"{"path":"a"}"#, "]}"), 400;
    memory_of_a_body_of_domains: filled(r#"{"prompt":"x","web":{"allow":["#, r#""a""#, "]}}"), 400;
    memory_of_a_body_of_tools:
        filled(r#"{"prompt":"x","connections":{"c":{"allowed_tools":["#, r#""a""#, "]}}}"), 400;
    memory_of_a_body_of_connections: map("connections", r#"{"ref":"a"}"#), 400;
    memory_of_a_body_of_metadata: map("metadata", r#""""#), 400;
    memory_of_a_body_of_input: filled(r#"{"prompt":"x","input":["#, "[]", "]}"), 200;
    memory_of_a_body_of_an_unknown_array: filled(r#"{"prompt":"x","unknown":["#, "0", "]}"), 400;
    memory_of_a_body_with_a_long_text: long(r#"{"prompt":""#, "x", r#""}"#), 200;
    memory_of_a_body_with_a_long_escaped_text: long(r#"{"prompt":""#, r"\n", r#""}"#), 200;
    memory_of_a_body_with_a_long_name: long(r#"{""#, "x", r#"":1}"#), 400;
    memory_of_a_body_with_a_long_escaped_name: long(r#"{""#, r"\u00e4", r#"":1}"#), 400;
    memory_of_a_body_with_a_long_text_for_a_number: long(r#"{"timeout_seconds":""#, "\u{7f}", r#""}"#), 400;
    memory_of_a_body_with_a_long_text_for_a_choice: long(r#"{"effort":""#, "x", r#""}"#), 400;
}
