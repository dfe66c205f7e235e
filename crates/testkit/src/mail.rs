//! A mail server: it keeps all accepted mails, answers as the test configures it, and relays nothing.

use std::{collections::VecDeque, fmt::Write as _, io, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use crate::{PATIENCE, serve::ANY};

/// Answer to one mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailAnswer {
    /// The sender is refused with this code.
    Sender(u16),
    /// The recipient is refused with this code.
    Recipient(u16),
    /// The server refuses the mail with this code after its data.
    Content(u16),
    /// The server does not answer after the data of the mail.
    Silence,
    /// The server closes the connection after the data of the mail.
    HangUp,
}

/// Mail that the server took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMail {
    /// Sender that the client named.
    pub from: String,
    /// Recipient that the client named.
    pub to: String,
    /// User that the client signed in as.
    pub user: Option<String>,
    /// Number of the connection, from 1.
    pub connection: usize,
    /// Headers and parts as they came.
    pub raw: String,
}

impl ReceivedMail {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        let (head, _) = self.raw.split_once("\r\n\r\n")?;
        header_of(head, name)
    }

    /// Returns the decoded part for programs that show no HTML.
    pub fn text(&self) -> Result<String> {
        self.part("text/plain")
    }

    /// Returns the decoded HTML.
    pub fn html(&self) -> Result<String> {
        self.part("text/html")
    }

    /// Returns the first address in the text.
    pub fn link(&self) -> Result<String> {
        let text = self.text()?;
        let link = text
            .lines()
            .find(|line| line.starts_with("http"))
            .context("the mail has no link")?;
        Ok(link.to_owned())
    }

    fn part(&self, kind: &str) -> Result<String> {
        let content_type = self.header("content-type").context("no content type")?;
        let (_, boundary) = content_type
            .split_once("boundary=\"")
            .context("the mail has no parts")?;
        let boundary = boundary.trim_end_matches('"');
        let part = self
            .raw
            .split(&format!("--{boundary}"))
            .find(|part| {
                part.to_ascii_lowercase()
                    .contains(&format!("content-type: {kind}"))
            })
            .with_context(|| format!("the mail has no part {kind}"))?;
        let (head, body) = part.trim_start().split_once("\r\n\r\n").context("no head")?;
        let encoding = header_of(head, "content-transfer-encoding").unwrap_or_default();
        decoded(&encoding, body.trim_end_matches("\r\n"))
    }
}

fn header_of(head: &str, name: &str) -> Option<String> {
    let unfolded = head.replace("\r\n ", " ").replace("\r\n\t", " ");
    unfolded.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

fn decoded(encoding: &str, body: &str) -> Result<String> {
    let bytes = match encoding {
        "base64" => STANDARD.decode(body.replace("\r\n", ""))?,
        "quoted-printable" => {
            let mut bytes = Vec::new();
            let joined = body.replace("=\r\n", "");
            let mut rest = joined.bytes();
            while let Some(byte) = rest.next() {
                if byte == b'=' {
                    let digits = [rest.next(), rest.next()].map(Option::unwrap_or_default);
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits)?, 16)?);
                } else {
                    bytes.push(byte);
                }
            }
            bytes
        }
        _ => body.as_bytes().to_vec(),
    };
    Ok(String::from_utf8(bytes)?.replace("\r\n", "\n"))
}

/// A running mail server, without TLS. Dropping it stops it.
#[derive(Debug)]
pub struct MailSink {
    address: SocketAddr,
    shared: Arc<Shared>,
    received: watch::Receiver<Vec<ReceivedMail>>,
    _task: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    credentials: Option<(String, String)>,
    answers: Mutex<VecDeque<MailAnswer>>,
    received: watch::Sender<Vec<ReceivedMail>>,
    /// Mails that came whole, whatever the answer.
    seen: watch::Sender<usize>,
}

impl MailSink {
    /// Starts a server that accepts mail without authentication.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(None).await
    }

    /// Starts a server that accepts mail from one user.
    pub async fn start_for(user: &str, password: &str) -> io::Result<Self> {
        Self::start_with(Some((user.to_owned(), password.to_owned()))).await
    }

    async fn start_with(credentials: Option<(String, String)>) -> io::Result<Self> {
        let listener = TcpListener::bind(ANY).await?;
        let address = listener.local_addr()?;
        let (sender, received) = watch::channel(Vec::new());
        let shared = Arc::new(Shared {
            credentials,
            answers: Mutex::default(),
            received: sender,
            seen: watch::Sender::new(0),
        });
        let mut task = JoinSet::new();
        task.spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            received,
            _task: task,
        })
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address for the configuration, without user and password.
    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    /// Answers the next mails with these, one each; later ones are accepted.
    pub fn answer_with(&self, answers: impl IntoIterator<Item = MailAnswer>) {
        self.shared.answers.lock().extend(answers);
    }

    /// The mails that were taken so far.
    pub fn all(&self) -> Vec<ReceivedMail> {
        self.received.borrow().clone()
    }

    /// Waits until `count` mails were accepted in all.
    pub async fn wait_for(&self, count: usize) -> Result<Vec<ReceivedMail>> {
        let mut received = self.received.clone();
        let waited = timeout(PATIENCE, received.wait_for(|all| all.len() >= count)).await;
        let all = waited.with_context(|| format!("there were not {count} mails"))??;
        Ok(all.clone())
    }

    /// Waits until a mail for an address was accepted. Returns the newest one.
    pub async fn wait_for_mail_to(&self, address: &str) -> Result<ReceivedMail> {
        let mut received = self.received.clone();
        let newest = |all: &Vec<ReceivedMail>| all.iter().rfind(|mail| mail.to == address).cloned();
        let waited = timeout(PATIENCE, received.wait_for(|all| newest(all).is_some())).await;
        let all = waited.with_context(|| format!("there was no mail to {address}"))??;
        newest(&all).context("no mail")
    }

    /// Waits for `count` attempts to send a mail, answered or not.
    pub async fn wait_for_attempts(&self, count: usize) -> Result<()> {
        let mut seen = self.shared.seen.subscribe();
        let waited = timeout(PATIENCE, seen.wait_for(|seen| *seen >= count)).await;
        waited.with_context(|| format!("there were not {count} attempts"))??;
        Ok(())
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut sessions = JoinSet::new();
    let mut connection = 0;
    while let Ok((stream, _)) = listener.accept().await {
        connection += 1;
        let session = Session {
            stream: BufReader::new(stream),
            shared: Arc::clone(&shared),
            connection,
            user: None,
        };
        // If the client disconnects, its session ends with an error.
        sessions.spawn(async move { drop(session.run().await) });
    }
}

struct Session {
    stream: BufReader<TcpStream>,
    shared: Arc<Shared>,
    connection: usize,
    user: Option<String>,
}

impl Session {
    async fn run(mut self) -> Result<()> {
        self.say("220 sink ESMTP").await?;
        let (mut from, mut to) = (String::new(), String::new());
        while let Some(line) = self.line().await? {
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match verb.to_ascii_uppercase().as_str() {
                "EHLO" if self.shared.credentials.is_some() => {
                    self.say("250-sink\r\n250 AUTH PLAIN LOGIN").await?;
                }
                "EHLO" | "RSET" | "NOOP" => self.say("250 sink").await?,
                "AUTH" => self.sign_in(rest).await?,
                "MAIL" => {
                    from = address_in(rest);
                    let answer = self.sender_answer();
                    self.say(&answer).await?;
                }
                "RCPT" => {
                    to = address_in(rest);
                    let answer = self.recipient_answer();
                    self.say(&answer).await?;
                }
                "DATA" => {
                    self.say("354 go on").await?;
                    let raw = self.content().await?;
                    if !self.answer_mail(&from, &to, raw).await? {
                        return Ok(());
                    }
                }
                "QUIT" => {
                    self.say("221 bye").await?;
                    return Ok(());
                }
                _ => self.say("502 not implemented").await?,
            }
        }
        Ok(())
    }

    fn sender_answer(&self) -> String {
        if self.shared.credentials.is_some() && self.user.is_none() {
            return "530 sign in first".to_owned();
        }
        match self.next_if(|answer| matches!(answer, MailAnswer::Sender(_))) {
            Some(MailAnswer::Sender(code)) => format!("{code} as told"),
            _ => "250 sender".to_owned(),
        }
    }

    fn recipient_answer(&self) -> String {
        match self.next_if(|answer| matches!(answer, MailAnswer::Recipient(_))) {
            Some(MailAnswer::Recipient(code)) => format!("{code} as told"),
            _ => "250 recipient".to_owned(),
        }
    }

    /// Answers a complete mail. Returns false if the connection ends.
    async fn answer_mail(&mut self, from: &str, to: &str, raw: String) -> Result<bool> {
        let answer = self.next_if(|_| true);
        if answer.is_none() {
            let mail = ReceivedMail {
                from: from.to_owned(),
                to: to.to_owned(),
                user: self.user.clone(),
                connection: self.connection,
                raw,
            };
            self.shared.received.send_modify(|all| all.push(mail));
        }
        self.shared.seen.send_modify(|seen| *seen += 1);
        match answer {
            None => self.say("250 taken").await?,
            Some(MailAnswer::Sender(code) | MailAnswer::Recipient(code) | MailAnswer::Content(code)) => {
                self.say(&format!("{code} as told")).await?;
            }
            Some(MailAnswer::Silence) => {
                // Wait for the end of the connection.
                while self.line().await?.is_some() {}
            }
            Some(MailAnswer::HangUp) => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the next answer of the script, if it is one for this step.
    fn next_if(&self, fits: impl FnOnce(&MailAnswer) -> bool) -> Option<MailAnswer> {
        let mut answers = self.shared.answers.lock();
        let fits = answers.front().is_some_and(fits);
        let next = if fits { answers.pop_front() } else { None };
        if matches!(next, Some(MailAnswer::Sender(_) | MailAnswer::Recipient(_))) {
            self.shared.seen.send_modify(|seen| *seen += 1);
        }
        next
    }

    async fn sign_in(&mut self, rest: &str) -> Result<()> {
        let mut words = rest.split(' ');
        let plain = match (words.next(), words.next()) {
            (Some("PLAIN"), Some(initial)) => decode(initial)?,
            (Some("LOGIN"), _) => {
                self.say("334 VXNlcm5hbWU6").await?;
                let user = self.line().await?.unwrap_or_default();
                self.say("334 UGFzc3dvcmQ6").await?;
                let password = self.line().await?.unwrap_or_default();
                format!("\0{}\0{}", decode(&user)?, decode(&password)?)
            }
            _ => String::new(),
        };
        let mut parts = plain.split('\0').skip(1).map(str::to_owned);
        let given = parts.next().zip(parts.next());
        if given.is_some() && given == self.shared.credentials {
            self.user = given.map(|(user, _)| user);
            self.say("235 welcome").await
        } else {
            self.say("535 wrong user or password").await
        }
    }

    async fn content(&mut self) -> Result<String> {
        let mut raw = String::new();
        while let Some(line) = self.line().await? {
            if line == "." {
                return Ok(raw);
            }
            // A line that begins with a dot was sent with one more.
            write!(raw, "{}\r\n", line.strip_prefix('.').unwrap_or(&line))?;
        }
        anyhow::bail!("the mail did not end")
    }

    async fn say(&mut self, line: &str) -> Result<()> {
        self.stream
            .get_mut()
            .write_all(format!("{line}\r\n").as_bytes())
            .await?;
        Ok(())
    }

    async fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).await?;
        Ok((read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

fn decode(text: &str) -> Result<String> {
    Ok(String::from_utf8(STANDARD.decode(text)?)?)
}

/// Address in `FROM:<a@b>`.
fn address_in(rest: &str) -> String {
    let address = rest.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    address.map_or("", |(address, _)| address).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_decoded_and_headers_unfolded() {
        let mail = ReceivedMail {
            from: String::new(),
            to: String::new(),
            user: None,
            connection: 1,
            raw: "Subject: a\r\n b\r\nContent-Type: multipart/alternative;\r\n boundary=\"x\"\r\n\r\n\
                  --x\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
                  caf=C3=A9 =\r\nlong\r\nhttps://a.example/=23t\r\n\r\n\
                  --x\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPGI+\r\n--x--\r\n"
                .to_owned(),
        };
        assert_eq!(mail.header("subject").unwrap(), "a b");
        assert_eq!(mail.text().unwrap(), "café long\nhttps://a.example/#t");
        assert_eq!(mail.html().unwrap(), "<b>");
        assert_eq!(mail.link().unwrap(), "https://a.example/#t");
    }
}
