//! Another mail that verifies an address.

use super::*;

#[tokio::test]
async fn a_person_asks_three_times_a_day_for_another_verification_mail() {
    let rig = Rig::with_mail(SignUp::Open).await;
    let ann = rig.sign_up("ann").await.person.id;
    let first = rig.mails().await;
    let ask = async || rig.accounts.send_verification(ann).await;
    for _ in 0..3 {
        ask().await.unwrap();
    }
    assert!(matches!(ask().await, Err(refused) if refused.code == ErrorCode::RateLimited));
    rig.mails().await;
    rig.pass(Duration::from_hours(28));
    ask().await.unwrap();
    let last = rig.mails().await;
    assert_eq!(
        (last.len(), last[0].0.as_str(), last[0].1["kind"].as_str()),
        (1, "ann@example.com", Some("verify_email"))
    );
    rule(rig.accounts.verify_email(token_of(&first[0].1)).await);
    rig.accounts.verify_email(token_of(&last[0].1)).await.unwrap();
    assert!(
        matches!(ask().await, Err(refused) if refused.code == ErrorCode::Conflict),
        "the address is verified"
    );

    let silent = Rig::new().await;
    let bob = silent.sign_up("bob").await.person.id;
    let refused = silent.accounts.send_verification(bob).await;
    assert!(
        matches!(&refused, Err(refused) if refused.code == ErrorCode::Conflict),
        "{refused:?}"
    );
}
