use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use decide::pipeline::probe::{
    CheckError, CheckOutcome, ProbeCheck, exec_outcome, exec_timeout_outcome, http_outcome,
};
use model::ContainerId;
use ports::outbound::{GrpcHealth, HttpGet, Outbound, OutboundError, Purpose, Scheme};
use ports::runtime::{Containers, RuntimeErrorKind};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::ProbeKey;

/// Network checks that may start in parallel.
const MAX_NETWORK_CHECKS: usize = 64;
/// Exec checks that may start in parallel: each costs the runtime a few processes.
const MAX_EXEC_CHECKS: usize = 16;
/// A check that takes longer releases its permit, so that slow checks do not block others.
const PERMIT_TIMEOUT: Duration = Duration::from_millis(250);
/// Attempts of a check without an outcome.
const MAX_ATTEMPTS: usize = 3;

pub(super) struct PendingCheck {
    pub(super) key: ProbeKey,
    pub(super) id: ContainerId,
    pub(super) check: Result<ProbeCheck, CheckError>,
    pub(super) timeout: Duration,
}

pub(super) struct FinishedCheck {
    pub(super) key: ProbeKey,
    pub(super) id: ContainerId,
    pub(super) outcome: CheckOutcome,
    pub(super) took: Duration,
}

pub(super) struct Checker {
    runtime: Arc<dyn Containers>,
    outbound: Arc<dyn Outbound>,
    network: Semaphore,
    exec: Semaphore,
}

impl Checker {
    pub(super) fn new(runtime: Arc<dyn Containers>, outbound: Arc<dyn Outbound>) -> Self {
        let (network, exec) = (Semaphore::new(MAX_NETWORK_CHECKS), Semaphore::new(MAX_EXEC_CHECKS));
        Self { runtime, outbound, network, exec }
    }

    /// Runs one check. The wait for a permit does not count towards its duration.
    pub(super) async fn run(self: Arc<Self>, pending: PendingCheck) -> FinishedCheck {
        let limiter = match &pending.check {
            Ok(ProbeCheck::Exec { .. }) => &self.exec,
            Ok(ProbeCheck::Http { .. } | ProbeCheck::Tcp { .. } | ProbeCheck::Grpc { .. }) | Err(_) => {
                &self.network
            }
        };
        // The semaphores are never closed.
        let permit = limiter.acquire().await.ok();
        let started = Instant::now();
        let outcome = {
            let mut attempts = pin!(self.check_with_retries(&pending));
            match tokio::time::timeout(PERMIT_TIMEOUT, attempts.as_mut()).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    drop(permit);
                    attempts.await
                }
            }
        };
        let took = started.elapsed();
        FinishedCheck { key: pending.key, id: pending.id, outcome, took }
    }

    async fn check_with_retries(&self, pending: &PendingCheck) -> CheckOutcome {
        let check = match &pending.check {
            Ok(check) => check,
            Err(CheckError(message)) => {
                return CheckOutcome::Error { result: "unknown", message: message.clone() };
            }
        };
        let mut outcome = self.check_once(&pending.id, check, pending.timeout).await;
        for _ in 1..MAX_ATTEMPTS {
            if outcome.result().is_some() {
                break;
            }
            outcome = self.check_once(&pending.id, check, pending.timeout).await;
        }
        outcome
    }

    async fn check_once(&self, id: &ContainerId, check: &ProbeCheck, timeout: Duration) -> CheckOutcome {
        match check {
            ProbeCheck::Exec { command } => match self.runtime.exec(id, command, timeout).await {
                Ok(output) => exec_outcome(output.exit_code, &output.stdout, &output.stderr),
                Err(error) if error.kind == RuntimeErrorKind::DeadlineExceeded => {
                    exec_timeout_outcome(command, timeout)
                }
                Err(error) => CheckOutcome::Error { result: "unknown", message: error.grpc_text() },
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
                    Ok(answer) => http_outcome(answer.status, &answer.body),
                    Err(error) => failure_outcome(&error),
                }
            }
            ProbeCheck::Tcp { host, port } => {
                outcome_of(self.outbound.tcp_connect(host, *port, timeout).await)
            }
            ProbeCheck::Grpc { host, port, service } => {
                let request =
                    GrpcHealth { host: host.clone(), port: *port, service: service.clone(), limit: timeout };
                outcome_of(self.outbound.grpc_health(&request).await)
            }
        }
    }
}

fn outcome_of(result: Result<(), OutboundError>) -> CheckOutcome {
    match result {
        Ok(()) => CheckOutcome::Success,
        Err(error) => failure_outcome(&error),
    }
}

fn failure_outcome(error: &OutboundError) -> CheckOutcome {
    match error {
        OutboundError::Failed(text) | OutboundError::PlainAnswer(text) | OutboundError::Request(text) => {
            CheckOutcome::Failure(text.clone())
        }
        OutboundError::Body(text) => CheckOutcome::Error { result: "failure", message: text.clone() },
    }
}
