use proptest::prelude::*;
use serde_json::{Value, json};
use sortie_testkit::{
    identity::{Signature, Signer},
    list, rows,
};

use super::{
    keys::{Algorithm, Keys},
    metadata::{ClientAuth, Metadata, issuer_url},
    signature::{Checked, check},
    token::{Claims, Expected, SignedToken},
};

const NOW: i64 = 1_763_674_200;

const EXPECTED: Expected<'_> = Expected {
    issuer: "https://idp.example",
    client_id: "sortie",
    nonce: "n-1",
    now: NOW,
};

fn claims() -> Value {
    json!({
        "iss": "https://idp.example",
        "aud": "sortie",
        "sub": "s-1",
        "nonce": "n-1",
        "iat": NOW,
        "exp": NOW + 300,
    })
}

/// Result of all checks of a token, with the keys of its signer.
fn accepted(token: &str, keys: &Value) -> Result<Claims, &'static str> {
    let keys = Keys::parse(keys.to_string().as_bytes())?;
    let token = SignedToken::parse(token)?;
    match check(&token, &keys)? {
        Checked::Claims(claims) => {
            claims.check(&EXPECTED)?;
            Ok(claims)
        }
        Checked::UnknownKey => Err("unknown key"),
    }
}

#[test]
fn tokens_of_both_algorithms_are_accepted_and_every_other_signature_is_refused() {
    let signer = Signer::new("k").unwrap();
    let of = |signature| {
        let token = signer.sign(&claims(), signature).unwrap();
        accepted(&token, &signer.keys())
    };
    for good in [Signature::Rs256, Signature::Es256] {
        assert_eq!(of(good).unwrap().text("sub"), Some("s-1"), "{good:?}");
    }
    let algorithm = "the ID token is signed by an algorithm that is not accepted";
    for (bad, reason) in [
        (Signature::OtherKey, "the signature of the ID token is wrong"),
        (Signature::None, algorithm),
        (Signature::Hs256, algorithm),
    ] {
        assert_eq!(of(bad).unwrap_err(), reason, "{bad:?}");
    }
}

#[test]
fn a_token_whose_parts_were_changed_is_refused() {
    let signer = Signer::new("k").unwrap();
    let keys = signer.keys();
    for signature in [Signature::Rs256, Signature::Es256] {
        let token = signer.sign(&claims(), signature).unwrap();
        for at in (0..token.len()).step_by(7) {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert!(accepted(&changed, &keys).is_err(), "{signature:?} {at}");
        }
        for other in list! {
            token.rsplit_once('.').unwrap().0.to_owned(), format!("{token}."),
            format!("{}.", token.rsplit_once('.').unwrap().0), format!("{token}="), String::new(), "..".to_owned(),
            "x".repeat(40_000),
        } {
            assert!(accepted(&other, &keys).is_err(), "{other}");
        }
    }
    // A token that names the other algorithm.
    let rsa = signer.sign(&claims(), Signature::Rs256).unwrap();
    let ecdsa = signer.sign(&claims(), Signature::Es256).unwrap();
    let (header, _) = ecdsa.split_once('.').unwrap();
    let (_, rest) = rsa.split_once('.').unwrap();
    assert!(accepted(&format!("{header}.{rest}"), &keys).is_err());
}

#[test]
fn a_token_with_a_critical_header_is_refused() {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#);
    let error = SignedToken::parse(&format!("{header}.e30.AAAA")).unwrap_err();
    assert_eq!(error, "the ID token has critical headers");
}

#[test]
fn each_claim_is_checked() {
    let of = |name: &str, value: Value| {
        let mut claims = claims();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value;
        }
        let sub = claims["sub"].as_str().unwrap_or_default().to_owned();
        // The claims are parsed like those of a userinfo endpoint, which needs a subject.
        let mut with_subject = claims;
        let absent = with_subject.get("sub").is_none();
        if absent {
            with_subject["sub"] = json!("");
        }
        let claims = Claims::of_userinfo(with_subject.to_string().as_bytes(), &sub).unwrap();
        claims.check(&EXPECTED).map(str::to_owned)
    };
    for (name, value) in [
        ("aud", json!("sortie")),
        ("aud", json!(["sortie"])),
        ("azp", json!("sortie")),
        ("exp", json!(NOW - 59)),
        ("exp", json!(1_763_674_200.5)),
        ("iat", json!(NOW + 60)),
        ("nbf", json!(NOW + 60)),
        ("sub", json!("x".repeat(255))),
    ] {
        assert!(of(name, value.clone()).is_ok(), "{name} {value}");
    }
    for (name, value) in [
        ("iss", json!("https://idp.example/")),
        ("iss", json!(["https://idp.example"])),
        ("iss", Value::Null),
        ("aud", json!("other")),
        ("aud", json!([])),
        ("aud", json!(["sortie", "other"])),
        ("aud", json!({"sortie": 1})),
        ("aud", Value::Null),
        ("azp", json!("other")),
        ("azp", json!(["sortie"])),
        ("exp", json!(NOW - 60)),
        ("exp", json!("never")),
        ("exp", Value::Null),
        ("iat", json!(NOW + 61)),
        ("iat", Value::Null),
        ("nbf", json!(NOW + 61)),
        ("nbf", json!("soon")),
        ("nonce", json!("n-2")),
        ("nonce", Value::Null),
        ("sub", json!("")),
        ("sub", json!("a\u{0}")),
        ("sub", json!("x".repeat(256))),
        ("sub", Value::Null),
    ] {
        assert!(of(name, value.clone()).is_err(), "{name} {value}");
    }
    let mut several = claims();
    several["aud"] = json!(["other", "sortie"]);
    several["azp"] = json!("sortie");
    let several = Claims::of_userinfo(several.to_string().as_bytes(), "s-1").unwrap();
    assert_eq!(several.check(&EXPECTED), Ok("s-1"));
}

#[test]
fn an_address_and_its_proof_come_from_one_answer() {
    const ANN: &str = "ann@example.com";
    const BOB: &str = "bob@example.com";
    let read = |mut claims: Value| {
        claims["sub"] = json!("s-1");
        Claims::of_userinfo(claims.to_string().as_bytes(), "s-1").unwrap()
    };
    for (token, userinfo, address, is_verified) in rows! {
        json!({"email": ANN}), json!({"email": ANN, "email_verified": true}), ANN, true;
        json!({"email": ANN}), json!({"email": ANN, "xms_edov": "1"}), ANN, true;
        json!({"email": ANN}), json!({"email": BOB, "email_verified": true}), ANN, false;
        json!({"email": ANN}), json!({"email": BOB, "xms_edov": true}), ANN, false;
        json!({"email": ANN}), json!({"email_verified": true}), ANN, false;
        json!({"email": ANN}), json!({"email": [ANN], "email_verified": true}), ANN, false;
        json!({"email_verified": true}), json!({"email": BOB}), BOB, false;
        json!({"xms_edov": true}), json!({"email": BOB, "email_verified": true}), BOB, true;
        json!({"xms_edov": true}), json!({"email": BOB}), BOB, false;
        json!({"email": ANN, "xms_edov": false}), json!({"email": ANN, "email_verified": true}), ANN, false;
        json!({"email": ANN, "xms_edov": true}), json!({"email": BOB, "email_verified": false}), ANN, true;
        json!({"email": ANN, "email_verified": true}), json!({"email": BOB, "name": "Bob"}), ANN, true;
    } {
        let mut claims = read(token.clone());
        claims.complete(read(userinfo.clone()));
        let found = (claims.text("email"), claims.email_is_verified());
        assert_eq!(found, (Some(address), is_verified), "{token} {userinfo}");
    }
}

#[test]
fn keys_of_other_kinds_and_uses_are_left_out() {
    let signer = Signer::new("k").unwrap();
    let keys = signer.keys();
    let (rsa, ec) = (&keys["keys"][0], &keys["keys"][1]);
    let found = |keys: &[&Value], algorithm, kid| {
        let keys = Keys::parse(json!({"keys": keys}).to_string().as_bytes()).unwrap();
        keys.find(algorithm, kid).is_some()
    };
    assert!(found(&[rsa, ec], Algorithm::Rs256, Some("k")));
    assert!(found(&[rsa, ec], Algorithm::Es256, None));
    assert!(!found(&[rsa, ec], Algorithm::Es256, Some("other")));
    assert!(
        !found(&[ec, ec], Algorithm::Es256, None),
        "two keys without a name"
    );
    for (name, value) in [
        ("use", json!("enc")),
        ("alg", json!("RSA-OAEP")),
        ("alg", json!("RS512")),
        ("alg", json!("ES256")),
        ("kty", json!("oct")),
        ("n", json!("!")),
        ("n", json!("AAAA")),
        ("e", Value::Null),
        ("n", json!("A".repeat(2_000))),
    ] {
        let mut changed = rsa.clone();
        changed[name] = value.clone();
        assert!(!found(&[&changed], Algorithm::Rs256, Some("k")), "{name} {value}");
        assert!(found(&[&changed, ec], Algorithm::Es256, None), "{name} {value}");
    }
    for (name, value) in [("crv", json!("P-384")), ("x", json!("AAAA")), ("y", Value::Null)] {
        let mut changed = ec.clone();
        changed[name] = value.clone();
        assert!(!found(&[&changed], Algorithm::Es256, Some("k")), "{name} {value}");
    }
    let many: Vec<_> = std::iter::repeat_n(ec, 101).collect();
    assert!(Keys::parse(json!({"keys": many}).to_string().as_bytes()).is_err());
}

#[test]
fn metadata_are_those_of_the_issuer_and_its_endpoints_are_secure() {
    const ISSUER: &str = "https://idp.example/tenant";
    let parsed = |issuer: &str, name: &str, value: Value| {
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": "https://idp.example/authorize?p=1",
            "token_endpoint": "https://idp.example/token",
            "jwks_uri": "https://keys.example/keys",
        });
        document[name] = value;
        Metadata::parse(document.to_string().as_bytes(), issuer)
    };
    let metadata = parsed(ISSUER, "x", Value::Null).unwrap();
    assert_eq!(metadata.client_auth, ClientAuth::Basic);
    assert!(!metadata.names_issuer && metadata.userinfo_endpoint.is_none());
    let methods = |methods: Value| parsed(ISSUER, "token_endpoint_auth_methods_supported", methods);
    assert_eq!(
        methods(json!(["client_secret_post"])).unwrap().client_auth,
        ClientAuth::Post
    );
    let both = methods(json!(["client_secret_post", "client_secret_basic"]));
    assert_eq!(both.unwrap().client_auth, ClientAuth::Basic);
    assert!(methods(json!(["private_key_jwt"])).is_err());
    for (name, value) in [
        ("issuer", json!("https://idp.example/tenant/")),
        ("issuer", json!("https://idp.example")),
        ("token_endpoint", json!("http://idp.example/token")),
        ("token_endpoint", json!("http://127.0.0.1/token")),
        ("token_endpoint", json!("https://user@idp.example/token")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
        ("authorization_endpoint", json!("https://idp.example/authorize#x")),
        ("jwks_uri", json!("file:///keys")),
        ("jwks_uri", Value::Null),
        ("userinfo_endpoint", json!("ftp://idp.example")),
    ] {
        assert!(parsed(ISSUER, name, value.clone()).is_err(), "{name} {value}");
    }
    let loopback = "http://127.0.0.1:8080";
    assert!(parsed(loopback, "token_endpoint", json!("http://127.0.0.1:8080/token")).is_ok());
    assert!(parsed(loopback, "token_endpoint", json!("http://192.0.2.1/token")).is_err());
    for issuer in [
        "https://idp.example",
        "https://idp.example/",
        "http://localhost:8080/realms/a",
    ] {
        assert!(issuer_url(issuer).is_some(), "{issuer}");
    }
    for other in list! {
        "http://idp.example", "https://idp.example?x", "https://idp.example#x", "https://u:p@idp.example",
        "idp.example", "",
    } {
        assert!(issuer_url(other).is_none(), "{other}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_parsers_panic(text in "\\PC{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _token = SignedToken::parse(&text);
        let _parts = SignedToken::parse(&format!("eyJhbGciOiJSUzI1NiJ9.{text}.{text}"));
        let _keys = (Keys::parse(&bytes), Keys::parse(text.as_bytes()));
        let _metadata = Metadata::parse(&bytes, &text);
        let _claims = Claims::of_userinfo(&bytes, &text);
    }

    #[test]
    fn a_token_is_for_its_nonce_alone(nonce in "[a-zA-Z0-9_-]{0,8}", audience in "[a-z]{0,7}") {
        let mut changed = claims();
        changed["nonce"] = json!(nonce);
        changed["aud"] = json!(audience);
        let claims = Claims::of_userinfo(changed.to_string().as_bytes(), "s-1").unwrap();
        prop_assert_eq!(claims.check(&EXPECTED).is_ok(), nonce == "n-1" && audience == "sortie");
    }
}
