//! Outbound connections: proxies and certificate authorities
//! (`docs/DEPLOYMENT.md#behind-a-proxy-with-certificates-of-your-own`).

use std::{io::Write as _, net::SocketAddr};

use sortie_testkit::{
    CallbackReceiver, ForwardProxy, ScriptedModel, ServerCertificate, TlsFront, model::Turn, tls::AUTHORITY,
};
use tempfile::NamedTempFile;

use crate::{prelude::*, runs::model::node_of_with};

const SECRET: &str = "secret of the callback";
const PASSWORD: &str = "hush-7f3a91c2";

fn authority() -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(AUTHORITY.as_bytes())?;
    Ok(file)
}

fn port_of(base_url: &str) -> Result<SocketAddr> {
    let rest = base_url.strip_prefix("http://").context("an address")?;
    Ok(rest.split('/').next().context("a host")?.parse()?)
}

/// Nothing but the proxy knows the names.
#[tokio::test]
async fn models_and_receivers_are_reached_through_the_proxies_of_the_environment() -> Checked {
    let model = ScriptedModel::start([Turn::says(["Done."])]).await?;
    let front = TlsFront::start(port_of(&model.base_url())?, ServerCertificate::OfAuthority).await?;
    let receiver = CallbackReceiver::start(SECRET).await?;
    let proxy = ForwardProxy::start_for("user", PASSWORD)
        .await?
        .leading("llm.example.test:443", front.address())
        .leading("hooks.example.test:80", receiver.address());
    let at = |scheme: &str| format!("{scheme}://user:{PASSWORD}@{}", proxy.address());
    let authority = authority()?;
    let path = authority.path().to_str().context("a path that is no text")?;
    let options = NodeOptions::default()
        .env("HTTPS_PROXY", &at("http"))
        .env("http_proxy", &at("socks5h"))
        .env("SSL_CERT_FILE", path);
    let own = url::Url::parse(&model.base_url())?;
    let base_url = format!("https://llm.example.test{}", own.path());
    let (node, _config) = node_of_with(Database::Sqlite, ("openai-chat", &base_url), options).await?;
    let client = node.client()?;
    let callback = json!({"url": "http://hooks.example.test/", "secret": SECRET});
    let request = json!({"prompt": "Go.", "shell": false, "callback": callback});
    let (_, run) = client.complete(&request).await?;
    assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
    receiver.wait_for(&run.id.to_string(), 1).await?;
    assert_eq!(
        proxy.asked(),
        ["CONNECT llm.example.test:443", "SOCKS hooks.example.test:80"]
    );
    ensure!(!node.log().contains(PASSWORD), "{}", node.log());
    Ok(())
}

/// `docs/WEB.md#4-egress-of-the-shell`: the run's proxy goes through the operator's.
#[tokio::test]
async fn commands_get_out_through_the_proxy_of_the_operator() -> Checked {
    const ASK: &str = "```sh\nexec 3<>/dev/tcp/127.0.0.1/3128 || exit 9\n\
                       printf 'GET http://files.example.test/x HTTP/1.1\\r\\nHost: files.example.test\\r\\nConnection: \
                       close\\r\\n\\r\\n' >&3\ncat <&3\nenv | grep -i proxy\n```\n";
    let receiver = CallbackReceiver::start(SECRET).await?;
    let proxy = ForwardProxy::start_for("user", PASSWORD)
        .await?
        .leading("files.example.test:80", receiver.address());
    let address = format!("http://user:{PASSWORD}@{}", proxy.address());
    let options = NodeOptions::default()
        .env("SORTIE_NETWORK_PROXY", &address)
        .env("SORTIE_NETWORK_PROXY_RESOLVES", "true");
    let (_node, client) = started_with(Database::Sqlite, options).await?;
    let (events, run) = client.complete(&json!({"prompt": ASK, "web": true})).await?;
    if data(of_kind(&events, "worker_started")[0])["runtime"] != "namespaces" {
        println!("NOT CHECKED: the way out of commands: this host gives runs no network of their own");
        return Ok(());
    }
    assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
    assert_eq!(proxy.asked(), ["GET http://files.example.test/x"]);
    let said = run.output.unwrap_or_default();
    // The receiver knows only POST.
    ensure!(said.contains("HTTP/1.1 4"), "{said}");
    assert_contains!(said, "http_proxy=http://127.0.0.1:3128");
    assert_lacks!(said, PASSWORD);
    Ok(())
}

/// The test waits for the command on a separate thread, because the peers answer during it.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_proxies_and_certificates_and_what_is_missing() -> Checked {
    let model = ScriptedModel::start([]).await?;
    let front = TlsFront::start(port_of(&model.base_url())?, ServerCertificate::OfAuthority).await?;
    let authority = authority()?;
    let folder = tempfile::tempdir()?;
    let report = |ca_file: &str, proxy: &str| -> Result<Value> {
        let own = format!(
            "[network]\nproxy = \"{proxy}\"\n[providers.own]\napi = \"openai-chat\"\nbase_url = \"https://localhost:{}/v1\"\n{ca_file}",
            front.address().port()
        );
        let file = folder.path().join("sortie.toml");
        std::fs::write(&file, own)?;
        let mut command = crate::cli::alone(folder.path(), &["doctor", "--json", "--providers"]);
        command.env_remove("SSL_CERT_DIR").env_remove("SSL_CERT_FILE");
        let output = command.output()?;
        serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))
    };
    let check = |report: &Value, name: &str| -> Result<Value> {
        let checks = report["checks"].as_array().context("checks")?;
        let mut found = checks.iter().filter(|check| check["name"] == name);
        Ok(found.next().with_context(|| report.to_string())?.clone())
    };
    let proxy = ForwardProxy::start().await?;
    let untrusted = report("", &format!("http://user:{PASSWORD}@{}", proxy.address()))?;
    let provider = check(&untrusted, "provider own")?.to_string();
    for words in ["CN=Example Test Authority", "ca_file"] {
        ensure!(provider.contains(words), "{provider}");
    }
    let network = check(&untrusted, "network")?;
    assert_eq!(network["verdict"], "ok", "{network}");
    ensure!(
        network["found"]
            == format!(
                "proxy http://{}; certificate authorities of this program",
                proxy.address()
            ),
        "{network}"
    );
    let file = format!("ca_file = {:?}\n", authority.path());
    let trusted = report(&file, "http://127.0.0.1:9")?;
    assert_eq!(check(&trusted, "network")?["verdict"], "fault", "{trusted}");
    ensure!(
        check(&trusted, "network")?["hints"]
            .to_string()
            .contains(&authority.path().display().to_string()),
        "{trusted}"
    );
    let provider = check(&trusted, "provider own")?.to_string();
    ensure!(!provider.contains("certificate"), "{provider}");
    Ok(())
}
