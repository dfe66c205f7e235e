//! Pictures in the results of tools that are not built in.

use sortie_agent::Media;

use crate::{files::Sees, prelude::*};

/// A PNG and a GIF of one pixel.
const DOT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const GIF: &str = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

/// Text and media of the result of a tool that returns `pictures`.
async fn shown(sees: bool, pictures: &[&str]) -> (String, Vec<Media>) {
    let (mut workspace, _root) = workspace(&untouched());
    workspace.stage(Vec::new()).await.unwrap();
    let probe: Arc<dyn Tool> = Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing));
    let model = Sees(scripted![
        calls(&[("get", json!({"n": 1, "pictures": pictures}))]),
        says("done")
    ]);
    let shown_to: &dyn Model = if sees { &model } else { &model.0 };
    let recorder = Recorder::default();
    let spec = spec("Go.").with_tool(probe);
    let _ = run_agent(spec, shown_to, &mut workspace, &recorder).await;
    workspace.close().await.unwrap();
    let transcripts = model.0.transcripts();
    let Some(Turn::ToolResults(results)) = transcripts.last().and_then(|turns| turns.last()) else {
        panic!("no results");
    };
    // A run that resumes on another node reads the same result.
    let kept = serde_json::to_string(&results[0].content).unwrap();
    assert_eq!(
        serde_json::from_str::<ToolContent>(&kept).unwrap(),
        results[0].content
    );
    (
        results[0].content.text().into_owned(),
        results[0].content.media().to_vec(),
    )
}

#[tokio::test]
async fn pictures_of_a_result_are_shown_and_what_is_broken_is_a_note() {
    let wrapped = format!(
        "data:image/png;base64,{}\n{}",
        &DOT[..40],
        &DOT[40..].trim_end_matches('=')
    );
    let torn = &DOT[..DOT.len() - 20];
    let changed = DOT.replace("mNk", "mNl");
    let (text, media) = shown(true, &[DOT, &wrapped, GIF, torn, &changed, "!", "", "aGVsbG8="]).await;
    let types: Vec<&str> = media.iter().map(|media| media.media_type.as_str()).collect();
    assert_eq!(types, ["image/png", "image/png", "image/gif"]);
    assert_eq!((media[0].data.as_str(), media[1].data.as_str()), (DOT, DOT));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "[item 1: a PNG picture, 1 x 1 pixels, 70 bytes]");
    assert_eq!(lines[2], "[item 3: a GIF picture, 1 x 1 pixels, 42 bytes]");
    for (line, number) in [(3, 4), (4, 5), (6, 7), (7, 8)] {
        assert!(
            lines[line].starts_with(&format!("[item {number}: "))
                && lines[line].contains("bytes that are no whole picture"),
            "{text}"
        );
    }
    assert_eq!(lines[5], "[item 6: it is no base64, so it is not shown]");
    assert!(text.ends_with("\nget did 1"), "{text}");
}

#[tokio::test]
async fn pictures_of_a_result_are_bounded_in_number_and_not_shown_to_a_model_that_does_not_see() {
    let (text, media) = shown(true, &[DOT; 10]).await;
    assert_eq!(media.len(), 8);
    assert!(
        text.contains("[item 9: a PNG picture, 1 x 1 pixels, 70 bytes; a result shows at most 8"),
        "{text}"
    );
    let (text, media) = shown(false, &[DOT]).await;
    assert!(media.is_empty());
    assert!(
        text.starts_with("[item 1: a PNG picture, 1 x 1 pixels, 70 bytes; this model cannot see pictures]\n"),
        "{text}"
    );
}
