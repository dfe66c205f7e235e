//! Every rule of a definition as a table, and the parts of a definition that passes.

use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_testkit::{list, rows};

use super::*;

const SAVED: Rules<'static> = Rules {
    reach: Reach::Private,
    usage: Use::Saved,
    programs: Ok(()),
};

const INLINE: Rules<'static> = Rules {
    usage: Use::Inline,
    ..SAVED
};

fn read(definition: &Value) -> ConnectionDefinition {
    serde_json::from_value(definition.clone()).unwrap()
}

fn refusal(rules: Rules<'_>, definition: &Value) -> Option<String> {
    check(At(""), rules, read(definition))
        .err()
        .map(|error| error.to_string())
}

fn passed(rules: Rules<'_>, definition: &Value) -> Checked {
    check(At("connections.crm"), rules, read(definition))
        .ok()
        .unwrap()
}

/// Beginning of the error message, and a definition that breaks one rule.
type Case = (&'static str, Value);

/// A valid definition, with these fields changed.
fn http(fields: &Value) -> Value {
    let mut definition = json!({"type": "http", "url": "https://a.example/v1"});
    for (field, value) in fields.as_object().unwrap() {
        definition[field] = value.clone();
    }
    definition
}

fn auth(auth: &Value) -> Value {
    http(&json!({"auth": auth}))
}

fn headers(name: &str, value: &str) -> Value {
    http(&json!({"headers": {name: value}}))
}

fn targets() -> Vec<Case> {
    Vec::from(rows! {
        "url: required", json!({"type": "http"});
        "url: required", json!({"type": "mcp"});
        "url: must be a URL such as", http(&json!({"url": "a.example"}));
        "url: must be http or https", http(&json!({"url": "ftp://a.example"}));
        "url: must be http or https", http(&json!({"url": "file:///etc/passwd"}));
        "url: must not contain user info", http(&json!({"url": "https://a:b@a.example"}));
        "url: must not contain a fragment", http(&json!({"url": "https://a.example/#x"}));
        "url: must not contain spaces", http(&json!({"url": "https://a.exa\tmple"}));
        "url: must not contain spaces", http(&json!({"url": " https://a.example"}));
        "url: must be at most", http(&json!({"url": format!("https://a.example/{}", "x".repeat(2_048))}));
        "url: leads to an address", http(&json!({"url": "http://169.254.169.254/latest"}));
        "url: leads to an address", http(&json!({"url": "http://[fd00:ec2::254]/"}));
        "command: cannot be combined with url", http(&json!({"command": ["x"]}));
        "command: is for type mcp", json!({"type": "http", "command": ["x"]});
        "command: must have 1 to 64", json!({"type": "mcp", "command": []});
        "command[0]: must be", json!({"type": "mcp", "command": [" "]});
        "env: is for a connection with a command", http(&json!({"env": {"A": "b"}}));
        "env: \"A=B\" is not the name", json!({"type": "mcp", "command": ["x"], "env": {"A=B": "c"}});
        "env.A: must be 1 to", json!({"type": "mcp", "command": ["x"], "env": {"A": ""}});
    })
}

fn oauths() -> Vec<Case> {
    let oauth = json!({"type": "oauth", "client_id": "c", "authorization_url": "https://a.example/a", "token_url": "https://a.example/t"});
    let mut half = oauth.clone();
    half.as_object_mut().unwrap().remove("token_url");
    let mut nobody = oauth.clone();
    nobody.as_object_mut().unwrap().remove("client_id");
    Vec::from(rows! {
        "auth.authorization_url: required", auth(&json!({"type": "oauth"}));
        "auth.token_url: required", auth(&half);
        "auth.client_id: required", auth(&nobody);
        "auth.client_id: required", auth(&json!({"type": "oauth", "client_secret": "x"}));
        "auth.client_id: required together with issuer", auth(&json!({"type": "oauth", "issuer": "https://a.example"}));
        "auth.issuer: is not for type none", auth(&json!({"type": "none", "issuer": "https://a.example"}));
        "auth.issuer: must be http or https",
            auth(&json!({"type": "oauth", "client_id": "c", "issuer": "ftp://a.example"}));
        "auth.issuer: must have no query",
            auth(&json!({"type": "oauth", "client_id": "c", "issuer": "https://a.example?b"}));
        "auth.scopes[0]: must be", auth(&json!({"type": "oauth", "scopes": ["a b"]}));
    })
}

fn auths() -> Vec<Case> {
    Vec::from(rows! {
        "auth: is for a connection with a url",
            json!({"type": "mcp", "command": ["x"], "auth": {"type": "bearer", "token": "t"}});
        "auth.token: required", auth(&json!({"type": "bearer"}));
        "auth.token: must be 1 to", auth(&json!({"type": "bearer", "token": ""}));
        "auth.token: must be 1 to", auth(&json!({"type": "bearer", "token": "a\r\nX: y"}));
        "auth.token: must be 1 to", auth(&json!({"type": "bearer", "token": "t".repeat(8_193)}));
        "auth.token: is not for type basic",
            auth(&json!({"type": "basic", "username": "a", "password": "b", "token": "t"}));
        "auth.value: is not for type none", auth(&json!({"type": "none", "value": "t"}));
        "auth.username: required", auth(&json!({"type": "basic", "password": "b"}));
        "auth.username: must not contain a colon",
            auth(&json!({"type": "basic", "username": "a:b", "password": "b"}));
        "auth.password: required", auth(&json!({"type": "basic", "username": "a"}));
        "auth.name: required", auth(&json!({"type": "header", "value": "x"}));
        "auth.name: \"a b\" is not the name", auth(&json!({"type": "header", "name": "a b", "value": "x"}));
        "auth.name: belongs to the engine", auth(&json!({"type": "header", "name": "Host", "value": "x"}));
        "auth.value: required", auth(&json!({"type": "query", "name": "key"}));
        "auth.value: must be", auth(&json!({"type": "query", "name": "key", "value": ""}));
    })
}

fn others() -> Vec<Case> {
    Vec::from(rows! {
        "headers: is for a connection with a url", json!({"type": "mcp", "command": ["x"], "headers": {}});
        "headers.Authorization: is set by auth", headers("Authorization", "x");
        "headers.Content-Length: belongs", headers("Content-Length", "1");
        "headers.Mcp-Session-Id: belongs", headers("Mcp-Session-Id", "1");
        "headers.Accept: belongs", json!({"type": "mcp", "url": "https://a.example", "headers": {"Accept": "x"}});
        "headers: \"\" is not the name", headers("", "x");
        "headers: \"a:b\" is not the name", headers("a:b", "x");
        "headers.X-A: must be 1 to", headers("X-A", "");
        "headers.X-A: must be 1 to", headers("X-A", "a\nb");
        "headers.X-A: must be 1 to", headers("X-A", " a");
        "headers.X-A: must be 1 to", headers("X-A", "ä");
        "headers.x-a: is a duplicate", http(&json!({"headers": {"X-A": "1", "x-a": "2"}}));
        "headers.X-Key: is set by auth",
            http(&json!({"auth": {"type": "header", "name": "x-key", "value": "1"}, "headers": {"X-Key": "2"}}));
        "allowed_methods: must have at least one", http(&json!({"allowed_methods": []}));
        "allowed_methods[1]: must be one of", http(&json!({"allowed_methods": ["GET", "get"]}));
        "allowed_methods[0]: must be one of", http(&json!({"allowed_methods": ["CONNECT"]}));
        "allowed_methods[1]: is there twice", http(&json!({"allowed_methods": ["GET", "GET"]}));
        "allowed_tools: is for type mcp", http(&json!({"allowed_tools": ["x"]}));
        "allowed_methods: is for type http",
            json!({"type": "mcp", "url": "https://a.example", "allowed_methods": ["GET"]});
        "allowed_tools[0]: must be", json!({"type": "mcp", "url": "https://a.example", "allowed_tools": [""]});
        "description: must be at most", http(&json!({"description": "ä".repeat(501)}));
    })
}

#[test]
fn each_rule_is_told_with_its_field() {
    for (told, definition) in [targets(), auths(), oauths(), others()].concat() {
        let refusal = refusal(SAVED, &definition).unwrap_or_else(|| format!("accepted: {definition}"));
        assert!(refusal.starts_with(told), "{told}\n{refusal}");
        assert!(refusal.len() < 400, "a message repeats no value: {refusal}");
    }
}

#[test]
fn what_needs_a_person_or_a_program_is_not_for_every_use() {
    let oauth = json!({"type": "mcp", "url": "https://a.example", "auth": {"type": "oauth"}});
    assert_eq!(refusal(SAVED, &oauth), None);
    assert!(
        refusal(INLINE, &oauth)
            .unwrap()
            .starts_with("auth.type: oauth needs a person")
    );
    let hosted = Rules {
        programs: Err("is not for hosted engines"),
        ..SAVED
    };
    let program = json!({"type": "mcp", "command": ["x"]});
    assert_eq!(
        refusal(hosted, &program).as_deref(),
        Some("command: is not for hosted engines")
    );
    assert_eq!(refusal(SAVED, &program), None);
}

#[test]
fn private_addresses_are_refused_where_they_are_forbidden() {
    let public = Rules {
        reach: Reach::Public,
        ..SAVED
    };
    for url in list! {
        "http://127.0.0.1:80/", "http://10.1.2.3", "http://[::1]/", "http://0x7f.1/", "http://localhost/",
        "http://a.localhost./",
    } {
        let definition = json!({"type": "http", "url": url});
        assert_eq!(refusal(SAVED, &definition), None, "{url}");
        assert!(
            refusal(public, &definition).unwrap().starts_with("url: leads to"),
            "{url}"
        );
    }
}

#[test]
fn a_definition_is_parted_from_what_is_secret() {
    let checked = passed(
        INLINE,
        &json!({"type": "http", "url": "https://ann:hu%20sh@a.example/v1?key=hush2", "headers": {"X-Key": "hush3"}, "allowed_methods": ["GET"]}),
    );
    assert_eq!(
        serde_json::to_value(&checked.definition).unwrap(),
        json!({"type": "http", "url": "https://a.example/v1", "auth": {"type": "basic"}, "headers": {"X-Key": ""}, "allowed_methods": ["GET"]})
    );
    let basic = AuthSecret::Basic {
        username: "ann".to_owned(),
        password: "hu sh".to_owned(),
    };
    assert!(checked.secrets.auth == basic);
    assert_eq!(checked.secrets.query.as_deref(), Some("key=hush2"));
    assert_eq!(checked.secrets.headers["X-Key"], "hush3");
    let plain = passed(
        SAVED,
        &json!({"type": "http", "url": "https://a.example", "auth": {"type": "none"}, "headers": {}}),
    );
    assert!(plain.secrets.is_empty());
    assert_eq!(
        serde_json::to_value(&plain.definition).unwrap(),
        json!({"type": "http", "url": "https://a.example/"})
    );
}

#[test]
fn a_definition_without_its_credentials_is_not_taken_again() {
    for definition in [
        json!({"type": "http", "url": "https://a.example", "auth": {"type": "bearer", "token": "t"}}),
        json!({"type": "http", "url": "https://a.example", "headers": {"X-Key": "t"}}),
        json!({"type": "http", "url": "https://u:p@a.example"}),
    ] {
        let checked = passed(INLINE, &definition);
        let shown = serde_json::to_value(&checked.definition).unwrap();
        assert!(refusal(INLINE, &shown).is_some(), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_rules_panic_and_no_secret_stays(
        url in "(https?://)?\\PC{0,30}", token in "\\PC{0,20}", name in "\\PC{0,10}", value in "[ -~]{8,20}",
    ) {
        for auth in [
            json!({"type": "bearer", "token": token}),
            json!({"type": "basic", "username": token, "password": value}),
            json!({"type": "header", "name": name, "value": value}),
            json!({"type": "query", "name": name, "value": value}),
        ] {
            let definition = json!({"type": "http", "url": url, "auth": auth, "headers": {name.clone(): value.clone()}});
            if let Ok(checked) = check(At(""), INLINE, read(&definition)) {
                let shown = serde_json::to_value(&checked.definition).unwrap();
                prop_assert_eq!(&shown["auth"], &json!({"type": auth["type"]}));
                prop_assert!(shown["headers"].as_object().unwrap().values().all(|value| value == ""));
                let shown = url::Url::parse(shown["url"].as_str().unwrap()).unwrap();
                prop_assert!(shown.username().is_empty() && shown.password().is_none(), "{}", shown);
                prop_assert!(shown.query().is_none() && shown.fragment().is_none(), "{}", shown);
            }
        }
    }
}

#[test]
fn more_headers_than_the_limit_are_not_even_read() {
    let headers = |count: usize| {
        let headers: std::collections::HashMap<_, _> = (0..count).map(|n| (format!("x-{n}"), "v")).collect();
        http(&json!({"headers": headers}))
    };
    assert_eq!(refusal(SAVED, &headers(32)), None);
    let refused = serde_json::from_value::<ConnectionDefinition>(headers(33)).unwrap_err();
    assert_eq!(refused.to_string(), "must have at most 32 entries");
}
