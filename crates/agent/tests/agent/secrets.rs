//! Credentials that come back: from a tool, from the model, in an error, in any form. They are never shown again.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use sortie_agent::Redactor;

use crate::prelude::*;

const TOKEN: &str = "sk-T0ken/of+the=owner";

/// Returns the forms that a server could give the token.
fn forms() -> Vec<String> {
    let percent: String = TOKEN
        .bytes()
        .map(|byte| format!("%{byte:02X}"))
        .collect::<Vec<_>>()
        .concat();
    vec![
        TOKEN.to_owned(),
        percent,
        STANDARD.encode(format!("user:{TOKEN}")),
        STANDARD.encode(TOKEN),
        TOKEN
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat(),
        TOKEN.replace('/', "\\/"),
        TOKEN.replace('+', "&#43;"),
        TOKEN.replace('/', "\\u002f"),
    ]
}

fn clean(seen: &str) -> bool {
    // As it was sent, and as it is after JSON parsing.
    forms().iter().all(|form| {
        let quoted = serde_json::to_string(form).unwrap();
        !seen.contains(form.as_str()) && !seen.contains(quoted.trim_matches('"'))
    })
}

fn with_token() -> RunSpec {
    RunSpec {
        tools: vec![Arc::new(Probe::new("get", Order::SideBySide, Effect::Nothing))],
        redactor: Arc::new(Redactor::new([TOKEN])),
        ..spec("Go.")
    }
}

#[tokio::test]
async fn a_tool_that_sends_a_credential_back_shows_it_to_nobody() {
    for form in forms() {
        let ask = |fails: bool| call("a", "get", &json!({"n": 1, "fails": fails, "text": form}));
        let model = scripted![
            reply(vec![ask(false)]),
            reply(vec![ask(true)]),
            says(&format!("It is {form}!"))
        ];
        let (outcome, recorder) = run_in(with_token(), &model, &untouched(), &[]).await;
        assert!(clean(succeeded(&outcome)), "{outcome:?}");
        assert!(clean(&recorder.everything()), "{form}: {}", recorder.everything());
        let shown = format!("{:?}", model.transcripts());
        assert!(clean(&shown) && shown.contains("[redacted]"), "{shown}");
    }
}

#[tokio::test]
async fn a_command_that_prints_a_credential_shows_it_to_nobody() {
    let backend = Pretended::new(&["bash"], |_| prints("the token is sk-T0ken/of+the=owner\n"));
    let model = scripted![reply(vec![call("a", "shell", &shell("env").1)]), says("ok")];
    let (_, recorder) = run_in(with_token(), &model, &backend, &[]).await;
    assert!(model.asked()[1].last.contains("the token is [redacted]\n"));
    assert!(clean(&recorder.everything()));
}

#[tokio::test]
async fn a_credential_at_the_cut_of_a_long_output_leaves_no_part() {
    // The output is limited to 32 KiB: the token would span the end of its first half.
    let bytes = 100_000;
    let text = format!("{}{TOKEN}", "y".repeat(16_384 - "get did 1".len() - 9));
    let model = scripted![
        reply(vec![call(
            "a",
            "get",
            &json!({"n": 1, "text": text, "bytes": bytes}),
        )]),
        says("ok")
    ];
    let (_, recorder) = run_in(with_token(), &model, &untouched(), &[]).await;
    let told = &model.asked()[1].last;
    assert!(
        told.contains("bytes left out") && !told.contains("sk-T"),
        "{}",
        &told[16_300..16_450]
    );
    assert!(!recorder.everything().contains("sk-T"));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_provider_names_no_credential() {
    let retry = ModelError::retryable(format!("401 for Bearer {TOKEN}"), None);
    let fatal = ModelError::fatal(format!("{}key {TOKEN} is unknown", "x".repeat(4_080)));
    let model = scripted![retry, fatal];
    let (outcome, recorder) = run_in(with_token(), &model, &untouched(), &[]).await;
    assert!(
        clean(failed(&outcome)) && !failed(&outcome).contains("sk-T"),
        "{outcome:?}"
    );
    assert_eq!(recorder.data("retry")[0]["reason"], "401 for Bearer [redacted]");
}

#[tokio::test]
async fn a_token_that_was_refreshed_during_the_run_is_known_from_then_on() {
    let run = with_token();
    let redactor = Arc::clone(&run.redactor);
    let backend = Pretended::new(&["bash"], move |_| {
        redactor.add("refreshed-token");
        prints("refreshed-token\n")
    });
    let model = scripted![reply(vec![call("a", "shell", &shell("x").1)]), says("ok")];
    let (_, recorder) = run_in(run, &model, &backend, &[]).await;
    assert!(model.asked()[1].last.contains("[redacted]"));
    assert!(!recorder.everything().contains("refreshed-token"));
}

#[tokio::test]
async fn text_that_only_began_like_a_credential_is_shown_before_what_follows_it() {
    let text = "It begins with sk-T0k";
    let model = Scripted::new(vec![Line {
        deltas: text,
        ..says(text).into()
    }]);
    let (outcome, recorder) = run_in(with_token(), &model, &untouched(), &[]).await;
    assert_eq!(succeeded(&outcome), text);
    assert_eq!(recorder.deltas(), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn nothing_that_a_sink_is_told_holds_a_credential(
        form in proptest::sample::select(forms()),
        around in "[a-zA-Z0-9 <&%\\\\\"]{0,9}",
        pieces in proptest::collection::vec(1_usize..6, 1..30),
        end in 0_usize..3,
    ) {
        let said = format!("{around}{form}{around}");
        let ended = match end {
            0 => Ok(says(&said)),
            1 => Err(ModelError::fatal(said.clone())),
            _ => Ok(Reply {
                content: vec![
                    Content::Text(said[..said.floor_char_boundary(said.len() / 2)].to_owned()),
                    Content::Text(said[said.floor_char_boundary(said.len() / 2)..].to_owned()),
                ],
                ..says("")
            }),
        };
        let model = Pieced { inner: Scripted::new(vec![
            Line::from(reply(vec![call("a", "get", &json!({"n": 1, "text": said}))])),
            ended.map_or_else(Line::from, Line::from),
        ]), said: said.clone(), pieces };
        let recorder = Recorder::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = runtime.block_on(async {
            let (mut workspace, _root) = workspace(&untouched());
            let outcome = run_agent(with_token(), &model, &mut workspace, &recorder).await;
            workspace.close().await.unwrap();
            outcome
        });
        let (Outcome::Succeeded(end) | Outcome::Failed(end)) = outcome else {
            panic!("{outcome:?}");
        };
        prop_assert!(clean(&end), "{}", end);
        prop_assert!(clean(&recorder.everything()), "{}", recorder.everything());
        prop_assert!(recorder.deltas().contains("[redacted]"), "{}", recorder.deltas());
        prop_assert!(clean(&recorder.deltas()), "{}", recorder.deltas());
    }
}

/// A model that writes its text in pieces.
struct Pieced {
    inner: Scripted,
    said: String,
    pieces: Vec<usize>,
}

impl sortie_agent::Model for Pieced {
    fn info(&self) -> &sortie_api::model::ModelInfo {
        self.inner.info()
    }

    fn call<'a>(
        &'a self,
        request: sortie_agent::model::Request<'a>,
        deltas: &'a dyn sortie_agent::model::Deltas,
    ) -> futures_util::future::BoxFuture<'a, Result<Reply, ModelError>> {
        let mut from = 0;
        for piece in self.pieces.iter().cycle() {
            let until = self.said.ceil_char_boundary((from + piece).min(self.said.len()));
            deltas.text(&self.said[from..until]);
            from = until;
            if from == self.said.len() {
                break;
            }
        }
        self.inner.call(request, deltas)
    }
}
