//! The order in which servers are asked.

use std::time::Duration;

use timing::BackoffPolicy;

use super::RegistryError;
use super::server::Server;

const MAX_ROUNDS: u32 = 5;
const RETRIES: BackoffPolicy = BackoffPolicy::doubling(Duration::from_millis(50), Duration::from_secs(5));

/// The servers one after the other, and again while the errors may be temporary.
pub(super) struct Attempts<'a> {
    servers: Vec<&'a Server>,
    pending: std::vec::IntoIter<&'a Server>,
    rounds: u32,
    /// The error to report if all servers fail.
    worst: RegistryError,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(servers: Vec<&'a Server>, image: &str) -> Self {
        let worst = RegistryError::NoEndpoint { image: image.to_owned() };
        Self { pending: servers.clone().into_iter(), servers, rounds: 0, worst }
    }

    /// The next server to ask, after a delay before each further round.
    pub(super) async fn next(&mut self) -> Result<&'a Server, RegistryError> {
        if let Some(server) = self.pending.next() {
            return Ok(server);
        }
        self.rounds += 1;
        let ended = RegistryError::NoEndpoint { image: String::new() };
        let worst = std::mem::replace(&mut self.worst, ended);
        if self.rounds >= MAX_ROUNDS || !worst.is_temporary() {
            return Err(worst);
        }
        tokio::time::sleep(RETRIES.delay_after(self.rounds)).await;
        self.pending = self.servers.clone().into_iter();
        self.pending.next().ok_or(worst)
    }

    pub(super) fn failed(&mut self, error: RegistryError) {
        if error.rank() >= self.worst.rank() {
            self.worst = error;
        }
    }
}
