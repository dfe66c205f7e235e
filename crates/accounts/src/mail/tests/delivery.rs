use sortie_api::EmailDelivery;
use sortie_base::{MasterKey, Sealer};
use sortie_store::outbox::NewMail;
use sortie_testkit::{MailAnswer, until};

use super::*;
use crate::mail::{
    NotSent, Parts,
    message::{Envelope, address},
    server::Security,
    smtp::Smtp,
};

const ANN: &str = "ann@example.com";

#[tokio::test]
async fn a_queued_mail_is_sent_once_and_forgotten() {
    let (rig, sink) = with_sink().await;
    let mailer = Mailer::of(&rig.accounts);
    let url = "https://accounts.example/verify-email#token";
    rig.queue_letter(ANN, &verify(url, rig.clock.now() + HOUR)).await;
    let mail = sink.wait_for(1).await.unwrap().remove(0);
    mailer.stop().await;
    assert_eq!(
        (mail.from.as_str(), mail.to.as_str()),
        ("sortie@accounts.example", ANN)
    );
    assert_eq!(mail.header("from").unwrap(), "Sortie <sortie@accounts.example>");
    assert_eq!(mail.header("to").unwrap(), ANN);
    assert_eq!(mail.header("auto-submitted").unwrap(), "auto-generated");
    assert_eq!(mail.link().unwrap(), url);
    assert!(mail.html().unwrap().contains(&format!("href=\"{url}\"")));
    assert_eq!(rig.left().await, []);
    assert!(
        rig.metrics()
            .contains("mail_attempts_total{kind=\"verify_email\",outcome=\"accepted\"} 1")
    );
}

#[tokio::test]
async fn a_mail_that_the_server_does_not_take_now_is_sent_later() {
    for answer in [
        MailAnswer::Recipient(451),
        MailAnswer::Content(452),
        MailAnswer::Sender(550),
        MailAnswer::HangUp,
    ] {
        let (rig, sink) = with_sink().await;
        sink.answer_with([answer]);
        let mailer = Mailer::of(&rig.accounts);
        rig.queue(ANN).await;
        sink.wait_for_attempts(1).await.unwrap();
        mailer.stop().await;
        assert_eq!(sink.all(), [], "{answer:?}");

        // The mail is not retried before its pause has passed.
        let (claimed, next) = rig.claim(10).await;
        assert_eq!(
            (claimed, next),
            (vec![], Some(Duration::from_secs(15))),
            "{answer:?}"
        );
        rig.pass(Duration::from_secs(15));
        rig.send(&sink, 1).await;
        assert_eq!(rig.left().await, [], "{answer:?}");
        let failed = "mail_attempts_total{kind=\"password_was_reset\",outcome=\"failed\"} 1";
        assert!(rig.metrics().contains(failed), "{answer:?}");
    }
}

#[tokio::test]
async fn a_mail_that_the_server_refuses_for_good_is_not_tried_again() {
    for answer in [MailAnswer::Recipient(550), MailAnswer::Content(554)] {
        let (rig, sink) = with_sink().await;
        sink.answer_with([answer]);
        let mailer = Mailer::of(&rig.accounts);
        rig.queue(ANN).await;
        sink.wait_for_attempts(1).await.unwrap();
        mailer.stop().await;
        assert_eq!(rig.left().await, [], "{answer:?}");
        let refused = "mail_attempts_total{kind=\"password_was_reset\",outcome=\"refused\"} 1";
        assert!(rig.metrics().contains(refused), "{answer:?}");
    }
}

#[tokio::test]
async fn a_mail_is_given_up_after_a_day() {
    let (rig, sink) = with_sink().await;
    sink.answer_with([MailAnswer::Recipient(451); 50]);
    rig.queue(ANN).await;
    let begun = rig.clock.now();
    let mut attempts = 0;
    while let (_, Some(next)) = rig.claim(0).await {
        rig.pass(next);
        attempts += 1;
        let mailer = Mailer::of(&rig.accounts);
        sink.wait_for_attempts(attempts).await.unwrap();
        mailer.stop().await;
    }
    let lasted = rig.clock.now().since(begun);
    assert!(lasted > 22 * HOUR && lasted <= 24 * HOUR, "{lasted:?}");
    assert!((25..40).contains(&attempts), "{attempts}");
    assert_eq!(rig.left().await, []);
    assert!(rig.metrics().contains("outcome=\"abandoned\"} 1"));
}

#[tokio::test]
async fn a_mail_whose_token_has_ended_is_not_sent() {
    let (rig, sink) = with_sink().await;
    let letter = verify(
        "https://accounts.example/verify-email#token",
        rig.clock.now() + HOUR,
    );
    rig.queue_letter(ANN, &letter).await;
    rig.pass(2 * HOUR);
    let mailer = Mailer::of(&rig.accounts);
    rig.queue("bob@example.com").await;
    sink.wait_for(1).await.unwrap();
    mailer.stop().await;
    let to: Vec<String> = sink.all().into_iter().map(|mail| mail.to).collect();
    assert_eq!(to, ["bob@example.com"]);
    assert_eq!(rig.left().await, []);
}

#[tokio::test]
async fn two_nodes_send_each_mail_once() {
    let (rig, sink) = with_sink().await;
    let parts = rig.accounts.parts();
    let other = Accounts::new(parts.options.clone(), parts.store.clone(), parts.sealer.clone());
    let mailers = [Mailer::of(&rig.accounts), Mailer::of(&other)];
    for number in 0..30 {
        rig.queue(&format!("{number}@example.com")).await;
        other.parts().mail_queued();
    }
    let mut to: Vec<String> = sink
        .wait_for(30)
        .await
        .unwrap()
        .into_iter()
        .map(|mail| mail.to)
        .collect();
    for mailer in mailers {
        mailer.stop().await;
    }
    to.sort();
    to.dedup();
    assert_eq!((to.len(), sink.all().len()), (30, 30));
    assert_eq!(rig.left().await, []);
}

#[tokio::test]
async fn the_mail_of_a_lost_node_is_sent_by_another() {
    let (rig, sink) = with_sink().await;
    rig.queue(ANN).await;
    let lost = rig.claim(10).await;
    assert_eq!(lost.0.len(), 1);
    rig.pass(HOUR);
    rig.send(&sink, 1).await;
    assert_eq!(rig.left().await, []);
}

#[tokio::test]
async fn a_mail_that_this_node_cannot_open_waits_for_another() {
    let (rig, sink) = with_sink().await;
    rig.queue(ANN).await;
    let parts = rig.accounts.parts();
    let other_key = Sealer::new(vec![MasterKey::new([9; 32])]);
    let stranger = Accounts::new(parts.options.clone(), parts.store.clone(), other_key);
    let mailer = Mailer::of(&stranger);
    let bob = stranger.parts().letter(
        "bob@example.com",
        &Letter::SignUpAgain {
            name: "Bob".to_owned(),
        },
    );
    parts
        .store
        .queue_mails(vec![bob.unwrap().unwrap()])
        .await
        .unwrap();
    stranger.parts().mail_queued();
    sink.wait_for_mail_to("bob@example.com").await.unwrap();
    mailer.stop().await;
    assert_eq!(sink.all().len(), 1);
    rig.pass(HOUR);
    let mailer = Mailer::of(&rig.accounts);
    sink.wait_for_mail_to(ANN).await.unwrap();
    mailer.stop().await;
}

#[tokio::test]
async fn a_connection_serves_several_mails() {
    let (rig, sink) = with_sink().await;
    let mailer = Mailer::of(&rig.accounts);
    for count in 1..=3 {
        rig.queue(ANN).await;
        sink.wait_for(count).await.unwrap();
        let store = rig.accounts.store();
        let look = async || Ok(store.claim_mails(rig.clock.now(), HOUR, 0).await?.1);
        until("no mail to be left", look, Option::is_none).await.unwrap();
    }
    mailer.stop().await;
    let connections: Vec<usize> = sink.all().iter().map(|mail| mail.connection).collect();
    assert_eq!(connections, [1, 1, 1]);
}

#[tokio::test]
async fn user_and_password_are_given_and_wrong_ones_told() {
    let sink = MailSink::start_for("sortie", "p:ss").await.unwrap();
    let address = sink.address();
    let right = Rig::mailing(
        SignUpRule::Open,
        Some(through(&format!("smtp://sortie:p%3Ass@{address}"))),
    )
    .await;
    assert_eq!(right.greet().await, Ok(()));
    let mailer = Mailer::of(&right.accounts);
    right.queue(ANN).await;
    assert_eq!(sink.wait_for(1).await.unwrap()[0].user.as_deref(), Some("sortie"));
    mailer.stop().await;

    let wrong = Rig::mailing(
        SignUpRule::Open,
        Some(through(&format!("smtp://sortie:other@{address}"))),
    )
    .await;
    assert_eq!(wrong.greet().await, Err(NotSent::Credentials(Some(535))));
    let without = Rig::mailing(SignUpRule::Open, Some(through(&sink.url()))).await;
    assert_eq!(without.send_at_once().await, EmailDelivery::Failed);
    assert_eq!(without.left().await.len(), 1);
    let open = MailSink::start().await.unwrap();
    let no_auth = format!("smtp://sortie:p@{}", open.address());
    let no_auth = Rig::mailing(SignUpRule::Open, Some(through(&no_auth))).await;
    assert_eq!(no_auth.greet().await, Err(NotSent::Credentials(None)));
}

#[tokio::test]
async fn nothing_is_sent_in_clear_to_another_machine() {
    let sink = MailSink::start().await.unwrap();
    let mut server = through(&sink.url()).server;
    assert_eq!(server.security, Security::Opportunistic);
    server.security = Security::StartTls;
    let envelope = Envelope {
        from: address("sortie@accounts.example").unwrap(),
        to: address(ANN).unwrap(),
        bytes: b"Subject: x\r\n\r\nx\r\n".to_vec(),
    };
    let refused = Smtp::new(server, "accounts.example").send(&envelope).await;
    assert_eq!(refused, Err(NotSent::NoTls));
    assert_eq!(sink.all(), []);
}

#[tokio::test]
async fn a_server_that_is_away_or_speaks_something_else_is_told() {
    let port = {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        free.local_addr().unwrap()
    };
    let away = Rig::mailing(SignUpRule::Open, Some(through(&format!("smtp://{port}")))).await;
    let Err(NotSent::Connection(reason)) = away.greet().await else {
        panic!("nobody is there")
    };
    assert!(reason.contains("refused"), "{reason}");
    let sink = MailSink::start().await.unwrap();
    let no_tls = Rig::mailing(
        SignUpRule::Open,
        Some(through(&format!("smtps://{}", sink.address()))),
    )
    .await;
    assert!(matches!(no_tls.greet().await, Err(NotSent::Connection(_))));
}

impl Rig {
    /// Runs a mailer until the server has taken this number of mails.
    async fn send(&self, sink: &MailSink, count: usize) {
        let mailer = Mailer::of(&self.accounts);
        sink.wait_for(count).await.unwrap();
        mailer.stop().await;
    }

    /// Claims mails for an hour. Also returns the time until the next one is due.
    async fn claim(&self, limit: u32) -> (Vec<ClaimedMail>, Option<Duration>) {
        let store = self.accounts.store();
        store.claim_mails(self.clock.now(), HOUR, limit).await.unwrap()
    }

    async fn greet(&self) -> Result<(), NotSent> {
        let options = self.accounts.options();
        let mail = options.mail.as_ref().unwrap();
        mail.server.greet(&options.org_url).await
    }

    async fn held(&self) -> NewMail {
        let letter = Letter::SignUpAgain {
            name: "Ann".to_owned(),
        };
        let mail = self
            .accounts
            .parts()
            .held_letter(
                MailId::new(self.clock.now(), sortie_base::random().unwrap()),
                ANN,
                &letter,
            )
            .unwrap()
            .unwrap();
        self.accounts
            .store()
            .queue_mails(vec![mail.clone()])
            .await
            .unwrap();
        mail
    }

    async fn send_at_once(&self) -> EmailDelivery {
        let mail = self.held().await;
        self.accounts.parts().send_now(Some(&mail)).await
    }
}

#[tokio::test]
async fn a_caller_learns_whether_the_server_took_the_mail() {
    let (rig, sink) = with_sink().await;
    assert_eq!(rig.send_at_once().await, EmailDelivery::Accepted);
    assert_eq!((sink.all().len(), rig.left().await.len()), (1, 0));

    sink.answer_with([MailAnswer::Recipient(550)]);
    assert_eq!(rig.send_at_once().await, EmailDelivery::Failed);
    assert_eq!(rig.left().await, []);

    sink.answer_with([MailAnswer::Recipient(451)]);
    assert_eq!(rig.send_at_once().await, EmailDelivery::Failed);
    rig.pass(Duration::from_secs(15));
    rig.send(&sink, 2).await;
    assert_eq!(rig.left().await, []);

    let none: &Parts = rig.accounts.parts();
    assert_eq!(none.send_now(None).await, EmailDelivery::Unavailable);
}

#[tokio::test]
async fn a_caller_does_not_wait_for_a_slow_server_and_the_mailer_goes_on_trying() {
    let (rig, sink) = with_sink().await;
    sink.answer_with([MailAnswer::Silence]);
    let begun = tokio::time::Instant::now();
    assert_eq!(rig.send_at_once().await, EmailDelivery::Failed);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    rig.pass(Duration::from_secs(30));
    rig.send(&sink, 1).await;
    assert_eq!(rig.left().await, []);
}

#[tokio::test]
async fn the_mailer_leaves_a_mail_to_the_node_that_sends_it_at_once() {
    let (rig, sink) = with_sink().await;
    let held = rig.held().await;
    let mailer = Mailer::of(&rig.accounts);
    rig.queue("bob@example.com").await;
    sink.wait_for(1).await.unwrap();
    mailer.stop().await;
    let to: Vec<String> = sink.all().into_iter().map(|mail| mail.to).collect();
    assert_eq!(to, ["bob@example.com"]);
    assert_eq!(
        rig.accounts.parts().send_now(Some(&held)).await,
        EmailDelivery::Accepted
    );
}
