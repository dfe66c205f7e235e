//! Background jobs of requests. They run after the response, so that its timing reveals nothing.
//!
//! The queue is bounded, and a node that stops drops the remaining jobs: the person has to send the request again.

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use sortie_api::ErrorCode;
use tokio::sync::mpsc;

use super::applicant::CheckedApplicant;
use crate::{Accounts, Parts, Result, email::EmailAddress};

/// Maximum number of waiting jobs.
const MOST_WAITING: usize = 1_000;

/// Number of concurrent jobs.
const AT_ONCE: usize = 4;

/// Background job of a request.
#[derive(Debug)]
pub(crate) enum Job {
    /// Mail a password reset token to the account of an address. The text is the path of the page that the person continues
    /// with.
    Forgot(EmailAddress, Option<String>),
    /// Create an account that has to verify its address first.
    SignUp(Box<CheckedApplicant>),
}

/// Queue of the jobs of a node.
pub(crate) struct Jobs {
    queue: mpsc::Sender<Job>,
    /// Receiver of the queue, until a task takes it.
    waiting: Mutex<Option<mpsc::Receiver<Job>>>,
}

impl Default for Jobs {
    fn default() -> Self {
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        Self {
            queue,
            waiting: Mutex::new(Some(waiting)),
        }
    }
}

impl Jobs {
    /// Adds a job. Returns `Unavailable` if the queue is full.
    pub(crate) fn enqueue(&self, job: Job) -> Result<()> {
        self.queue
            .try_send(job)
            .map_err(|_| ErrorCode::Unavailable.because("too many requests wait, retry later"))
    }
}

impl Accounts {
    /// Runs the background jobs until the future is dropped. A second call returns at once.
    pub async fn run_jobs(&self) {
        let waiting = self.0.jobs.waiting.lock().take();
        let Some(mut waiting) = waiting else {
            return;
        };
        stream::poll_fn(|context| waiting.poll_recv(context))
            .for_each_concurrent(AT_ONCE, |job| self.0.run_job(job))
            .await;
    }

    /// Runs the jobs that are waiting now.
    #[cfg(test)]
    pub(crate) async fn run_waiting_jobs(&self) {
        loop {
            let job = {
                let mut waiting = self.0.jobs.waiting.lock();
                waiting.as_mut().and_then(|waiting| waiting.try_recv().ok())
            };
            match job {
                Some(job) => self.0.run_job(job).await,
                None => return,
            }
        }
    }
}

impl Parts {
    async fn run_job(&self, job: Job) {
        let (name, done) = match job {
            Job::Forgot(email, back) => ("forgot_password", self.send_reset(&email, back.as_deref()).await),
            Job::SignUp(applicant) => ("sign_up", self.sign_up_by_mail(*applicant).await),
        };
        match done {
            Ok(()) => {}
            Err(error) if error.code == ErrorCode::RateLimited => {
                tracing::debug!(job = name, "left a mail out");
            }
            Err(error) => tracing::warn!(job = name, %error, "a job of the accounts failed"),
        }
    }
}
