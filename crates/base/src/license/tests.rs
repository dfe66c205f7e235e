//! Tokens: the official vectors of PASETO, and tokens with one changed byte.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Seed and public key of the official vectors.
const SEED: &str = "b4cbfb43df4ce210727d953e4a713307fa19bb7d9f85041438d9e11b942a3774";
const PUBLIC_HEX: &str = "1eb9dbbbbc047c03fd70604e0071f0987e16b28b757225c11f00415d0e20b1a2";
const MESSAGE: &str = r#"{"data":"this is a signed message","exp":"2022-01-01T00:00:00+00:00"}"#;
const FOOTER: &str = r#"{"kid":"zVhMiPBP9fRf2snEcT7gFTioeA9COcNy9DfgL1W60haN"}"#;

/// Vectors 4-S-1 to 4-S-3: footer, implicit assertion, token.
const SIGNED: [(&str, &str, &str); 3] = [
    (
        "",
        "",
        "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjAyMi0wMS0wMVQwMDowMDowMCswMDowMCJ9bg_XBBzds8lTZShVlwwKSgeKpLT3yukTw6JUz3W4h_ExsQV-P0V54zemZDcAxFaSeef1QlXEFtkqxT1ciiQEDA",
    ),
    (
        FOOTER,
        "",
        "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjAyMi0wMS0wMVQwMDowMDowMCswMDowMCJ9v3Jt8mx_TdM2ceTGoqwrh4yDFn0XsHvvV_D0DtwQxVrJEBMl0F2caAdgnpKlt4p7xBnx1HcO-SPo8FPp214HDw.eyJraWQiOiJ6VmhNaVBCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9",
    ),
    (
        FOOTER,
        r#"{"test-vector":"4-S-3"}"#,
        "v4.public.eyJkYXRhIjoidGhpcyBpcyBhIHNpZ25lZCBtZXNzYWdlIiwiZXhwIjoiMjAyMi0wMS0wMVQwMDowMDowMCswMDowMCJ9NPWciuD3d0o5eXJXG5pJy-DiVEoyPYWs1YSTwWHNJq6DZD3je5gf-0M4JR9ipdUSJbIovzmBECeaWmaqcaP0DQ.eyJraWQiOiJ6VmhNaVBCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9",
    ),
];

/// Vectors 4-F-1 to 4-F-4, which no verifier of v4.public accepts: implicit assertion, token.
const REFUSED: [(&str, &str); 4] = [
    (
        r#"{"test-vector":"4-F-1"}"#,
        "v4.local.vngXfCISbnKgiP6VWGuOSlYrFYU300fy9ijW33rznDYgxHNPwWluAY2Bgb0z54CUs6aYYkIJ-bOOOmJHPuX_34Agt_IPlNdGDpRdGNnBz2MpWJvB3cttheEc1uyCEYltj7wBQQYX.YXJiaXRyYXJ5LXN0cmluZy10aGF0LWlzbid0LWpzb24",
    ),
    (
        r#"{"test-vector":"4-F-2"}"#,
        "v4.public.eyJpbnZhbGlkIjoidGhpcyBzaG91bGQgbmV2ZXIgZGVjb2RlIn22Sp4gjCaUw0c7EH84ZSm_jN_Qr41MrgLNu5LIBCzUr1pn3Z-Wukg9h3ceplWigpoHaTLcwxj0NsI1vjTh67YB.eyJraWQiOiJ6VmhNaVBCUDlmUmYyc25FY1Q3Z0ZUaW9lQTlDT2NOeTlEZmdMMVc2MGhhTiJ9",
    ),
    (
        r#"{"test-vector":"4-F-3"}"#,
        "v3.local.23e_2PiqpQBPvRFKzB0zHhjmxK3sKo2grFZRRLM-U7L0a8uHxuF9RlVz3Ic6WmdUUWTxCaYycwWV1yM8gKbZB2JhygDMKvHQ7eBf8GtF0r3K0Q_gF1PXOxcOgztak1eD1dPe9rLVMSgR0nHJXeIGYVuVrVoLWQ.YXJiaXRyYXJ5LXN0cmluZy10aGF0LWlzbid0LWpzb24",
    ),
    (
        "",
        "v4.local.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAr68PS4AXe7If_ZgesdkUMvSwscFlAl1pk5HC0e8kApeaqMfGo_7OpBnwJOAbY9V7WU6abu74MmcUE8YWAiaArVI8XJ5hOb_4v9RmDkneN0S92dx0OW4pgy7omxgf3S8c3LlQh",
    ),
];

fn signer() -> LicenseSigner {
    SEED.parse().unwrap()
}

fn claims() -> LicenseClaims {
    let at = Timestamp::from_micros(1_795_000_000_000_000);
    LicenseClaims {
        serial: "0011223344556677".to_owned(),
        deployment: DeploymentId::new(at, [1; 10]),
        organization: OrgId::new(at, [2; 10]),
        name: "Factory \"Nord\"".to_owned(),
        machine_id: "6d0f5b1a8f1c4f0e9b7a3c2d1e0f9a8b".to_owned(),
        monthly_runs: 7,
        issued_at: at,
        expires_at: at + Duration::from_hours(24),
    }
}

#[test]
fn the_official_vectors_are_made_and_verified_byte_for_byte() {
    let signer = signer();
    assert_eq!(hex(&signer.public().0), PUBLIC_HEX);
    for (footer, implicit, text) in SIGNED {
        let made = signer.token(MESSAGE.into(), footer.into(), implicit.as_bytes());
        assert_eq!(made.text(), text);
        let read = Token::parse(text).unwrap();
        assert_eq!(read, made);
        signer.public().verify_with(&read, implicit.as_bytes()).unwrap();
        let refused = signer.public().verify_with(&read, b"another assertion");
        assert_eq!(refused, Err(InvalidLicense::WrongSignature));
    }
}

#[test]
fn the_official_vectors_that_must_fail_are_refused() {
    for (implicit, text) in REFUSED {
        let verified = Token::parse(text)
            .map_err(InvalidLicense::from)
            .and_then(|token| signer().public().verify_with(&token, implicit.as_bytes()));
        assert!(verified.is_err(), "{text}");
    }
}

#[test]
fn a_license_is_read_with_the_key_that_its_footer_names() {
    let (signer, other) = (signer(), "11".repeat(32).parse::<LicenseSigner>().unwrap());
    let token = signer.sign(&claims()).unwrap();
    let keys = [other.public().clone(), signer.public().clone()];
    assert_eq!(read_license(&token, &keys), Ok(claims()));
    assert_eq!(read_license(&format!(" {}\n", *token), &keys), Ok(claims()));
    let unknown = InvalidLicense::UnknownKey(signer.public().id());
    assert_eq!(read_license(&token, &keys[..1]), Err(unknown));
    assert!(read_license(&token, &[]).is_err());
    // Another key with the id of this one.
    let footer = paseto::footer(&signer.public().id()).unwrap();
    let forged = other.token(serde_json::to_vec(&claims()).unwrap(), footer.clone(), b"");
    assert_eq!(
        read_license(&forged.text(), &keys),
        Err(InvalidLicense::WrongSignature)
    );
    // The right key, but it signed other content.
    for message in [MESSAGE.to_owned(), String::new(), r#"{"serial":1}"#.to_owned()] {
        let token = signer.token(message.into(), footer.clone(), b"");
        assert_eq!(
            read_license(&token.text(), &keys),
            Err(InvalidLicense::WrongClaims)
        );
    }
    let negative = LicenseClaims {
        monthly_runs: -1,
        ..claims()
    };
    let token = signer.sign(&negative).unwrap();
    assert_eq!(read_license(&token, &keys), Err(InvalidLicense::WrongClaims));
}

#[test]
fn a_token_has_one_text() {
    let (signer, keys) = (signer(), [signer().public().clone()]);
    let token = signer.sign(&claims()).unwrap();
    let padded = token.replace('.', "=.");
    for wrong in [
        "",
        "v4.public.",
        "v4.public.AAAA",
        &format!("{}.", *token),
        &format!("{}=", *token),
        &format!("{}.e30", *token),
        &padded,
        &token.replace("v4.public", "v3.public"),
        &format!("v4.public.{}", "A".repeat(5_000)),
    ] {
        assert_eq!(
            read_license(wrong, &keys),
            Err(InvalidLicense::Malformed),
            "{wrong}"
        );
    }
    let long = LicenseClaims {
        name: "x".repeat(4_000),
        ..claims()
    };
    assert!(signer.sign(&long).is_err(), "nobody could read it");
}

#[test]
fn keys_are_read_as_they_are_written() {
    let signer = signer();
    let text = signer.public().to_string();
    assert_eq!(text, "k4.public.Hrnbu7wEfAP9cGBOAHHwmH4Wsot1ciXBHwBBXQ4gsaI");
    assert_eq!(text.parse::<LicensePublicKey>().as_ref(), Ok(signer.public()));
    for wrong in [
        "",
        "k4.public.",
        &text.to_lowercase(),
        &format!("{text}="),
        "k4.secret.AAAA",
    ] {
        assert_eq!(
            wrong.parse::<LicensePublicKey>(),
            Err(InvalidLicenseKey::Public),
            "{wrong}"
        );
    }
    for wrong in ["", "00", &SEED[1..]] {
        assert_eq!(
            wrong.parse::<LicenseSigner>().unwrap_err(),
            InvalidLicenseKey::Signing
        );
    }
    assert!(!format!("{signer:?}").contains("b4cb"), "{signer:?}");
}

proptest! {
    #[test]
    fn no_changed_byte_is_accepted(at in 0_usize..400, to in 0_u8..128) {
        let (signer, keys) = (signer(), [signer().public().clone()]);
        let mut bytes = signer.sign(&claims()).unwrap().as_bytes().to_vec();
        let at = at % bytes.len();
        prop_assume!(bytes[at] != to);
        // Surrounding spaces are not part of a token.
        prop_assume!(!(to.is_ascii_whitespace() && (at == 0 || at + 1 == bytes.len())));
        bytes[at] = to;
        prop_assert!(read_license(&String::from_utf8(bytes).unwrap(), &keys).is_err());
    }

    #[test]
    fn no_text_is_accepted_or_makes_the_reader_panic(text in "(v4\\.public\\.)?[A-Za-z0-9_.=-]{0,300}|\\PC{0,40}") {
        prop_assert!(read_license(&text, &[signer().public().clone()]).is_err());
    }

    #[test]
    fn every_license_comes_back(name in "\\PC{0,200}", runs in 0..i64::MAX, serial in "[0-9a-f]{16}") {
        let issued = LicenseClaims { name, monthly_runs: runs, serial, ..claims() };
        let token = signer().sign(&issued).unwrap();
        prop_assert_eq!(read_license(&token, &[signer().public().clone()]), Ok(issued));
    }
}
