use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use decide::probe::{CheckError, Finding, ProbeCheck, exec_finding, exec_timeout_finding, http_finding};
use model::ContainerId;
use ports::outbound::{GrpcHealth, HttpGet, Outbound, OutboundError, Purpose, Scheme};
use ports::runtime::{Containers, RuntimeErrorKind};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ProbeKey;

/// Checks over the network that begin side by side.
const NETWORK_PLACES: usize = 64;
/// Commands that begin side by side: each costs the runtime a few processes.
const EXEC_PLACES: usize = 16;
/// A check that takes longer gives its place to the next one, so that slow ones hold up nobody.
const PLACE_TIME: Duration = Duration::from_millis(250);
/// Tries of a check that could not be made.
const TRIES: usize = 3;

/// One check to be made.
pub(super) struct Job {
    pub(super) key: ProbeKey,
    pub(super) id: ContainerId,
    pub(super) check: Result<ProbeCheck, CheckError>,
    pub(super) timeout: Duration,
}

/// One check that was made.
pub(super) struct Done {
    pub(super) key: ProbeKey,
    pub(super) id: ContainerId,
    pub(super) finding: Finding,
    pub(super) took: Duration,
}

/// Makes checks.
pub(super) struct Checker {
    runtime: Arc<dyn Containers>,
    outbound: Arc<dyn Outbound>,
    network: Semaphore,
    exec: Semaphore,
}

impl Checker {
    pub(super) fn new(runtime: Arc<dyn Containers>, outbound: Arc<dyn Outbound>) -> Self {
        let (network, exec) = (Semaphore::new(NETWORK_PLACES), Semaphore::new(EXEC_PLACES));
        Self { runtime, outbound, network, exec }
    }

    /// Makes one check. Waiting for a place is not part of its time.
    pub(super) async fn run(self: Arc<Self>, job: Job) -> Done {
        let places = match &job.check {
            Ok(ProbeCheck::Exec { .. }) => &self.exec,
            Ok(ProbeCheck::Http { .. } | ProbeCheck::Tcp { .. } | ProbeCheck::Grpc { .. }) | Err(_) => {
                &self.network
            }
        };
        // Nobody closes the semaphores.
        let place = places.acquire().await.ok();
        let begun = Instant::now();
        let finding = {
            let mut tries = pin!(self.tries(&job));
            match tokio::time::timeout(PLACE_TIME, tries.as_mut()).await {
                Ok(finding) => finding,
                Err(_) => {
                    drop(place);
                    tries.await
                }
            }
        };
        let took = begun.elapsed();
        Done { key: job.key, id: job.id, finding, took }
    }

    async fn tries(&self, job: &Job) -> Finding {
        let check = match &job.check {
            Ok(check) => check,
            Err(CheckError(message)) => {
                return Finding::Error { result: "unknown", message: message.clone() };
            }
        };
        let mut finding = self.once(&job.id, check, job.timeout).await;
        for _ in 1..TRIES {
            if finding.verdict().is_some() {
                break;
            }
            finding = self.once(&job.id, check, job.timeout).await;
        }
        finding
    }

    async fn once(&self, id: &ContainerId, check: &ProbeCheck, timeout: Duration) -> Finding {
        match check {
            ProbeCheck::Exec { command } => match self.runtime.exec(id, command, timeout).await {
                Ok(output) => exec_finding(output.exit_code, &output.stdout, &output.stderr),
                Err(error) if error.kind == RuntimeErrorKind::DeadlineExceeded => {
                    exec_timeout_finding(command, timeout)
                }
                Err(error) => Finding::Error { result: "unknown", message: error.grpc_text() },
            },
            ProbeCheck::Http { tls, host, port, path, headers } => {
                let request = HttpGet {
                    scheme: if *tls { Scheme::Https } else { Scheme::Http },
                    host: host.clone(),
                    port: *port,
                    path: path.clone(),
                    headers: headers.clone(),
                    purpose: Purpose::Probe,
                    limit: Some(timeout),
                };
                match self.outbound.http_get(&request).await {
                    Ok(answer) => http_finding(answer.status, &answer.body),
                    Err(error) => refused(&error),
                }
            }
            ProbeCheck::Tcp { host, port } => answered(self.outbound.tcp_connect(host, *port, timeout).await),
            ProbeCheck::Grpc { host, port, service } => {
                let asked =
                    GrpcHealth { host: host.clone(), port: *port, service: service.clone(), limit: timeout };
                answered(self.outbound.grpc_health(&asked).await)
            }
        }
    }
}

fn answered(result: Result<(), OutboundError>) -> Finding {
    match result {
        Ok(()) => Finding::Success,
        Err(error) => refused(&error),
    }
}

fn refused(error: &OutboundError) -> Finding {
    match error {
        OutboundError::Failed(text) | OutboundError::PlainAnswer(text) | OutboundError::Request(text) => {
            Finding::Failure(text.clone())
        }
        OutboundError::Body(text) => Finding::Error { result: "failure", message: text.clone() },
    }
}
