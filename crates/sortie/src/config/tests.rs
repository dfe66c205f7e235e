mod providers;

use proptest::prelude::*;
use sortie_api::Mode;
use sortie_sandbox::Limits;
use sortie_testkit::rows;

use self::providers::providers;
use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

pub(super) fn load(
    file: &str,
    variables: &[(&str, &str)],
    flags: &Flags,
    policy: SandboxPolicy,
) -> Result<Config, Error> {
    let file = Some((Path::new("sortie.toml"), file)).filter(|(_, text)| !text.is_empty());
    let environment = environment(variables);
    Config::from_layers(stack(file, flags, &environment)?, &environment, policy)
}

pub(super) fn of_file(file: &str) -> Result<Config, Error> {
    load(file, &[], &Flags::default(), SandboxPolicy::Required)
}

pub(super) fn refusal(file: &str) -> String {
    of_file(file).map_or_else(|error| error.to_string(), |config| format!("accepted {config:?}"))
}

fn listening(flag: Option<&str>) -> Flags {
    let mut flags = Flags::default();
    flags.text("listen", "--listen", flag);
    flags
}

#[test]
fn without_any_configuration_a_node_is_self_hosted_on_the_loopback_with_sqlite() {
    let config = of_file("").unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.mode, Mode::SelfHosted);
    assert_eq!(config.database_url.expose(), "sqlite:data/sortie.db");
    assert_eq!(config.database_connections, sortie_store::CONNECTIONS);
    assert_eq!(config.sandbox.minimum, Level::Namespaces);
    assert_eq!(config.sandbox.limits, Limits::default());
    assert_eq!(
        config.rate_limit_per_minute,
        sortie_api::limits::REQUESTS_PER_MINUTE
    );
    assert_eq!(
        config.anonymous_rate_limit_per_minute,
        sortie_api::limits::ANONYMOUS_REQUESTS_PER_MINUTE
    );
    assert_eq!(config.organization_concurrency, None);
    assert_eq!(config.organization_storage_bytes, None);
}

/// Service managers and container runtimes pass secrets as files.
#[test]
fn a_variable_may_name_a_file_that_holds_the_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database_url");
    std::fs::write(&path, "postgres://sortie:hushed@db/sortie\n").unwrap();
    let path = path.to_str().unwrap();
    let of = |variables: &[(&str, &str)]| load("", variables, &Flags::default(), SandboxPolicy::Required);

    let config = of(&[("SORTIE_DATABASE_URL_FILE", path)]).unwrap();
    assert_eq!(config.database_url.expose(), "postgres://sortie:hushed@db/sortie");
    let shown = config.to_toml();
    assert!(
        shown.contains("SORTIE_DATABASE_URL_FILE") && !shown.contains("hushed"),
        "{shown}"
    );

    for (variables, told) in rows! {
        [("SORTIE_DATABASE_URL_FILE", path), ("SORTIE_DATABASE_URL", "sqlite:x")], "not both";
        [("SORTIE_DATABASE_URL_FILE", "/nowhere/url"), ("HOME", "/")], "/nowhere/url cannot be read";
        [("SORTIE_MASTER_KEY_FILES", path), ("HOME", "/")], "did you mean SORTIE_MASTER_KEY_FILE?";
    } {
        let error = of(&variables).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert!(!error.contains("hushed"), "{error}");
    }
}

#[test]
fn a_list_in_a_file_has_its_values_on_lines_or_between_commas() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proxies");
    std::fs::write(&path, "10.0.0.1\r\n10.0.0.2, 10.244.0.0/16\n").unwrap();
    let variables = [("SORTIE_TRUSTED_PROXIES_FILE", path.to_str().unwrap())];
    let config = load("", &variables, &Flags::default(), SandboxPolicy::Required).unwrap();
    let proxies = ["10.0.0.1/32", "10.0.0.2/32", "10.244.0.0/16"].map(|network| network.parse().unwrap());
    assert_eq!(config.trusted_proxies, proxies);
}

#[test]
fn a_value_is_read_from_a_regular_file_of_64_kib_at_most() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let folder = tempfile::tempdir().unwrap();
    let (pipe, large, full) = (
        folder.path().join("pipe"),
        folder.path().join("large"),
        folder.path().join("full"),
    );
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::fs::write(&large, vec![b'x'; 65_537]).unwrap();
    std::fs::write(&full, vec![b'x'; 65_536]).unwrap();
    assert_eq!(read_value(&full).unwrap().len(), 65_536);
    for (path, rule) in [
        (pipe.as_path(), "it is no regular file"),
        (Path::new("/dev/zero"), "it is no regular file"),
        (folder.path(), "it is no regular file"),
        (large.as_path(), "it is larger than 64 KiB"),
    ] {
        let path = path.to_str().unwrap();
        let variables = [("SORTIE_DATABASE_URL_FILE", path)];
        let error = load("", &variables, &Flags::default(), SandboxPolicy::Required).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("database_url (SORTIE_DATABASE_URL_FILE): {path} cannot be read: {rule}")
        );
        let error = providers("", &[("OPENAI_API_KEY_FILE", path)]).unwrap_err();
        assert!(error.contains(rule), "{error}");
    }
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let (file, variable, flag) = (
        "listen = \"127.0.0.1:1\"",
        [("SORTIE_LISTEN", "127.0.0.1:2")],
        listening(Some("127.0.0.1:3")),
    );
    let port = |file, variables: &[_], flags: &Flags| {
        load(file, variables, flags, SandboxPolicy::Required)
            .unwrap()
            .listen
            .port()
    };
    assert_eq!(port("", &[], &listening(None)), 8080);
    assert_eq!(port(file, &[], &listening(None)), 1);
    assert_eq!(port(file, &variable, &listening(None)), 2);
    assert_eq!(port(file, &variable, &flag), 3);
    assert_eq!(
        port(file, &[("SORTIE_LISTEN", "")], &listening(None)),
        1,
        "an empty variable is not set"
    );
}

#[test]
fn every_key_can_be_set_by_its_variable() {
    let config = load(
        "",
        &[
            ("SORTIE_CONCURRENCY", "7"),
            ("SORTIE_TRUSTED_PROXIES", "10.0.0.1, ::1"),
            ("SORTIE_SANDBOX_MINIMUM", "none"),
            ("SORTIE_SANDBOX_I_UNDERSTAND_COMMANDS_RUN_UNSANDBOXED", "true"),
            ("SORTIE_SANDBOX_LIMITS_PROCESSES", "64"),
            ("SORTIE_SANDBOX_READABLE_PATHS", "/usr/share, /etc/os-release"),
            ("SORTIE_LOG_FORMAT", "json"),
        ],
        &Flags::default(),
        SandboxPolicy::Required,
    )
    .unwrap();
    assert_eq!(config.concurrency, 7);
    assert_eq!(config.trusted_proxies.len(), 2);
    assert_eq!(config.sandbox.minimum, Level::None);
    assert_eq!(config.sandbox.limits.processes, 64);
    assert_eq!(
        config.sandbox.readable_paths,
        ["/usr/share", "/etc/os-release"].map(PathBuf::from)
    );
    assert_eq!(config.log.format, LogFormat::Json);
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_nearest_one() {
    assert_eq!(
        refusal("listn = 1"),
        "sortie.toml: unknown key `listn`; did you mean `listen`?"
    );
    assert_eq!(
        refusal("[sandbox]\nminimun = \"none\""),
        "sortie.toml: unknown key `sandbox.minimun`; did you mean `sandbox.minimum`?"
    );
    assert_eq!(
        refusal("[stripe]\nsecret = 1"),
        "sortie.toml: unknown key `stripe.secret`; expected one of `secret_key`, `webhook_secrets`, `api_url`"
    );
    assert_eq!(
        refusal("something = 1"),
        "sortie.toml: unknown key `something`; `sortie config default` lists all keys"
    );
    assert_eq!(
        refusal("log_format = \"json\""),
        "sortie.toml: unknown key `log_format`; did you mean `log.format`?"
    );
    assert_eq!(
        refusal("[provider.openai]\napi_key = \"k\""),
        "sortie.toml: unknown key `provider`; did you mean `providers`?"
    );
    assert_eq!(
        refusal("[providers.openai]\napi_keys = \"k\""),
        "sortie.toml: unknown key `providers.openai.api_keys`; did you mean `providers.openai.api_key`?"
    );
    assert_eq!(
        refusal("sandbox = 1"),
        "sandbox (sortie.toml): must be a table, not the number 1"
    );
    assert_eq!(
        refusal("[stripe]\nsecret_key = 123456"),
        "stripe.secret_key (sortie.toml): must be a string"
    );
}

#[test]
fn variables_of_other_programs_have_no_file() {
    let variables = [
        ("OTEL_SERVICE_NAME", "jobs"),
        ("OTEL_SERVICE_NAME_FILE", "/nowhere"),
        ("OPENAI_BASE_URL_FILE", "/nowhere"),
    ];
    load("", &variables, &Flags::default(), SandboxPolicy::Required).unwrap();
}

#[test]
fn a_variable_does_not_hide_a_value_where_a_table_belongs() {
    let mut layers = super::layers::Layers::default();
    layers.set("providers", toml::Value::Integer(1), Some("sortie.toml"));
    layers.set(
        "providers.openai.api_key",
        toml::Value::from("sk"),
        Some("OPENAI_API_KEY"),
    );
    assert_eq!(layers.get("providers"), Some(&toml::Value::Integer(1)));
}

#[test]
fn a_table_where_a_value_belongs_is_refused() {
    assert_eq!(
        refusal("[listen]\nport = 1"),
        "listen (sortie.toml): must be an IP address and a port, such as 127.0.0.1:8080"
    );
}

#[test]
fn a_misspelt_variable_is_refused_but_not_those_of_others() {
    let with = |name| load("", &[(name, "x")], &Flags::default(), SandboxPolicy::Required);
    assert_eq!(
        with("SORTIE_LISTN").map_err(|error| error.0).unwrap_err(),
        "SORTIE_LISTN: no such setting; did you mean SORTIE_LISTEN?"
    );
    for name in [
        "SORTIE_URL",
        "SORTIE_API_KEY",
        "SORTIE_OPERATOR_KEY",
        "SORTIE_CONTEXT",
        "SORTIE_SERVICE_HOST",
        "SORTIE_PORT",
        "SORTIE_PORT_8080_TCP",
        "OTHER",
    ] {
        assert!(with(name).is_ok(), "{name}");
    }
}

#[test]
fn a_broken_file_is_refused_with_its_line() {
    let text = refusal("listen = \"127.0.0.1:1\"\nmode = \n");
    assert!(text.starts_with("sortie.toml: line 2, column "), "{text}");
}

#[test]
fn a_wrong_variable_or_flag_is_named_with_the_rule_of_its_key() {
    let of = |variables: &[(&str, &str)], flags: &Flags| {
        load("", variables, flags, SandboxPolicy::Required)
            .unwrap_err()
            .to_string()
    };
    let none = Flags::default();
    assert_eq!(
        of(&[("SORTIE_CONCURRENCY", "many")], &none),
        "concurrency (SORTIE_CONCURRENCY): must be a whole number from 1 to 4294967295"
    );
    assert_eq!(
        of(&[("SORTIE_WEB_ROBOTS", "maybe")], &none),
        "web.robots (SORTIE_WEB_ROBOTS): must be true or false, not a string"
    );
    assert_eq!(
        of(&[("OPENAI_API_KEY", "hush hush")], &none),
        "providers.openai.api_key (OPENAI_API_KEY): must be visible ASCII characters without spaces"
    );
    assert_eq!(
        of(&[], &listening(Some("nowhere"))),
        "listen (--listen): must be an IP address and a port, such as 127.0.0.1:8080"
    );
}

fn are_refused(cases: &[(&str, &str)]) {
    for (file, sentence) in cases {
        assert_eq!(refusal(file), *sentence);
    }
}

#[test]
fn every_rule_is_one_sentence_with_the_key_and_its_source() {
    are_refused(&rows! {
        "listen = \"8080\"", "listen (sortie.toml): must be an IP address and a port, such as 127.0.0.1:8080";
        "metrics_listen = \"9090\"",
        "metrics_listen (sortie.toml): must be an IP address and a port, such as 127.0.0.1:8080";
        "listen = 8080", "listen (sortie.toml): must be an IP address and a port, such as 127.0.0.1:8080";
        "mode = \"hosted\"", "org_listen: must be set with mode = \"hosted\"";
        "mode = \"cloud\"", "mode (sortie.toml): must be `hosted` or `self-hosted`, not `cloud`";
        "database_url = \"mysql://x\"",
        "database_url (sortie.toml): must be `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`";
        "concurrency = 0", "concurrency (sortie.toml): must be a whole number from 1 to 4294967295";
        "default_max_cost_micros = 100000001",
        "default_max_cost_micros (sortie.toml): must be a whole number from 1 to 100000000";
        "compute_micros_per_second = -1", "compute_micros_per_second (sortie.toml): must be a whole number, at least 0";
        "trusted_proxies = [\"proxy\"]",
        "trusted_proxies (sortie.toml): must be a list of IP addresses and networks, such as 10.0.0.7 and 10.244.0.0/16";
        "trusted_proxies = [\"::ffff:10.0.0.0/104\"]",
        "trusted_proxies (sortie.toml): must be a list of IP addresses and networks, such as 10.0.0.7 and 10.244.0.0/16";
        "allowed_origins = [\"https://app.example.com/\"]",
        "allowed_origins (sortie.toml): must be a list of origins as browsers send them, such as https://app.example.com and http://localhost:5173";
        "allowed_origins = [\"*\"]",
        "allowed_origins (sortie.toml): must be a list of origins as browsers send them, such as https://app.example.com and http://localhost:5173";
        "node_name = \"a b\"", "node_name (sortie.toml): must be 1 to 100 letters, digits, dots, dashes or underscores";
        "[log]\nformat = \"xml\"", "log.format (sortie.toml): must be `text` or `json`, not `xml`";
    });
}

#[test]
fn the_address_of_traces_has_a_place_for_the_id_after_its_host() {
    for url in [
        "https://traces.example.com/trace/{trace_id}",
        "http://localhost:16686/trace/{trace_id}?from=sortie",
        "https://traces.example.com/?id={trace_id}&again={trace_id}",
        "https://traces.example.com/#/{trace_id}",
    ] {
        // The console may be disabled, as for a while.
        let config = of_file(&format!("console = false\nconsole_trace_url = \"{url}\"")).unwrap();
        assert_eq!(config.console_trace_url.as_deref(), Some(url));
    }
    assert_eq!(of_file("").unwrap().console_trace_url, None);
    for url in [
        "https://traces.example.com/",
        "https://traces.example.com/{traceid}",
        "traces.example.com/{trace_id}",
        "ftp://traces.example.com/{trace_id}",
        "javascript:alert('{trace_id}')",
        "https://{trace_id}.example.com/",
        "https://traces.example.com:{trace_id}/",
        "{trace_id}://traces.example.com/",
        "https://ann:hush@traces.example.com/{trace_id}",
    ] {
        assert_eq!(
            refusal(&format!("console_trace_url = \"{url}\"")),
            "console_trace_url (sortie.toml): must be an http:// or https:// address without user and password that has \
             {trace_id} after the host, as in https://traces.example.com/trace/{trace_id}"
        );
    }
}

#[test]
fn every_rule_of_the_sandbox_is_one_sentence_with_the_key_and_its_source() {
    are_refused(&rows! {
        "[sandbox]\nminimum = \"none\"",
        "sandbox.minimum (sortie.toml): `none` lets runs do whatever this user can; accept that by \
         sandbox.i_understand_commands_run_unsandboxed = true or the flag \
         --i-understand-commands-run-unsandboxed";
        "[sandbox]\ni_understand_commands_run_unsandboxed = true",
        "sandbox.i_understand_commands_run_unsandboxed (sortie.toml): is true, but sandbox.minimum is \
         `namespaces`; set sandbox.minimum = \"none\", or take the confirmation back";
        "[sandbox]\nreadable_paths = \"/opt\"", "sandbox.readable_paths (sortie.toml): must be an array, not a string";
        "[sandbox]\nreadable_paths = [\"/usr/share\", \"/etc\"]",
        "sandbox.readable_paths (sortie.toml): cannot show /etc to commands: /etc/shadow lies in it, and \
         credentials of the host lie there; name a file or folder that holds no secrets";
        "[sandbox.limits]\nfile_bytes = 2000000000",
        "sandbox.limits.file_bytes (sortie.toml): is larger than sandbox.limits.disk_bytes, so that no file \
         could ever reach it; lower it";
    });
}

#[test]
fn a_version_ends_half_a_year_after_it_is_deprecated() {
    for (file, sentence) in rows! {
        "[api.v1]\ndeprecated = \"soon\"\nsunset = \"2027-09-15\"",
        "api.v1.deprecated (sortie.toml): must be a date such as 2027-03-01";
        "[api.v1]\ndeprecated = \"2027-03-01\"", "api.v1.sunset: must be set beside api.v1.deprecated";
        "[api.v1]\nsuccessor = \"https://example.com\"", "api.v1.deprecated: must be set beside the other keys of api.v1";
        "[api.v1]\ndeprecated = \"2027-03-01\"\nsunset = \"2027-08-31\"",
        "api.v1.sunset (sortie.toml): must be 2027-09-01 or later: a version works for six months after it is \
         deprecated";
        "[api.v1]\ndeprecated = \"2027-03-01\"\nsunset = \"2027-09-01\"\nsuccessor = \"v2\"",
        "api.v1.successor (sortie.toml): must be an http or https URL";
    } {
        assert_eq!(refusal(file), sentence);
    }
}

#[test]
fn on_ones_own_machine_landlock_will_do_unless_a_minimum_is_configured() {
    let level = |file, variables: &[_], confirmed| {
        let mut flags = Flags::default();
        let flag = "--i-understand-commands-run-unsandboxed";
        flags.switch("sandbox.i_understand_commands_run_unsandboxed", flag, confirmed);
        load(file, variables, &flags, SandboxPolicy::Strongest).map(|config| config.sandbox.minimum)
    };
    assert_eq!(level("", &[], false), Ok(Level::Landlock));
    assert_eq!(level("", &[], true), Ok(Level::None));
    assert_eq!(
        level("[sandbox]\nminimum = \"namespaces\"", &[], false),
        Ok(Level::Namespaces)
    );
    assert!(level("", &[("SORTIE_SANDBOX_MINIMUM", "namespaces")], true).is_err());
}

#[test]
fn a_password_is_never_shown() {
    for url in [
        "postgres://sortie:hush@db/sortie",
        "postgres://db/sortie?user=sortie&password=hush",
        "postgres://:hush@db/sortie",
    ] {
        let config = of_file(&format!("database_url = \"{url}\"")).unwrap();
        assert_eq!(config.database_url.expose(), url);
        for shown in [
            config.to_toml(),
            config.to_json().to_string(),
            config.database_url.to_string(),
        ] {
            assert!(!shown.contains("hush"), "{shown}");
        }
        assert!(!format!("{:?}", config.database_url).contains("hush"));
    }
}

#[test]
fn what_is_shown_names_the_sources() {
    let config = load(
        "concurrency = 5\nadvertise_url = \"https://sortie.example.com/\"",
        &[("SORTIE_NODE_NAME", "blue")],
        &listening(Some("127.0.0.1:3")),
        SandboxPolicy::Required,
    )
    .unwrap();
    insta::assert_snapshot!(config.to_toml());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}", value in "\\PC{0,20}") {
        let _read = load(&text, &[("SORTIE_LISTEN", &value)], &Flags::default(), SandboxPolicy::Required);
    }
}
