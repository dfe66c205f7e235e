//! `web`: its tools, and the egress of a run's commands (`docs/WEB.md`).

use crate::prelude::*;

/// Asks the proxy of the run for a forbidden address, using only the shell.
const ASK: &str = "```sh\nexec 3<>/dev/tcp/127.0.0.1/3128 || exit 9\n\
                   printf 'GET http://10.0.0.1/ HTTP/1.1\\r\\nHost: 10.0.0.1\\r\\nConnection: close\\r\\n\\r\\n' >&3\n\
                   cat <&3\necho \"proxy: $http_proxy\"\n```\n";

#[tokio::test]
async fn commands_get_out_through_the_proxy_alone_and_only_with_web() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let (events, run) = client.complete(&json!({"prompt": ASK, "web": true})).await?;
    let started = data(of_kind(&events, "worker_started")[0]);
    if started["runtime"] != "namespaces" {
        println!("NOT CHECKED: the way out of commands: this host gives runs no network of their own");
        return Ok(());
    }
    assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
    let said = run.output.unwrap_or_default();
    ensure!(said.contains("10.0.0.1 is not a public address"), "{said}");
    ensure!(said.contains("proxy: http://127.0.0.1:3128"), "{said}");

    let (_, run) = client.complete(&json!({"prompt": ASK})).await?;
    assert_eq!(run.status, RunStatus::Failed, "{run:?}");
    ensure!(
        run.error
            .as_deref()
            .is_some_and(|error| error.starts_with("block 1 exited with status")),
        "{run:?}"
    );
    Ok(())
}

#[tokio::test]
async fn the_web_tools_are_there_with_web_and_go_to_public_addresses_alone() -> Checked {
    let (_node, client) = started(Database::Sqlite).await?;
    let fetch = |url: &str| format!("```tool web_fetch\n{}\n```\n", json!({"url": url}));
    for (url, web, told) in rows! {
        "http://169.254.169.254/", json!(true), "169.254.169.254 is not a public address";
        "http://localhost/", json!(true), "localhost is not a public address";
        "https://example.com/",
        json!({"allow": ["example.org"]}),
        "example.com is not one of the domains that this run may reach";
        "https://example.com/", json!(false), "there is no tool `web_fetch`";
    } {
        let request = json!({"prompt": fetch(url), "shell": false, "web": web});
        let (events, run) = client.complete(&request).await?;
        assert_eq!(run.status, RunStatus::Failed, "{run:?}");
        let ends: Vec<Value> = of_kind(&events, "tool_end").into_iter().map(data).collect();
        ensure!(ends.len() == 1 && ends[0]["is_error"] == true, "{ends:?}");
        ensure!(ends[0]["output"].to_string().contains(told), "{url}: {ends:?}");
    }
    Ok(())
}
