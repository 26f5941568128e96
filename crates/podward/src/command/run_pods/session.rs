//! The course of a run: show, wait until all pods have ended or the user stops them, and end what is left.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use model::WorkerPhase;
use tokio::sync::mpsc;

use super::display::Display;
use super::log_streams::LogStreams;
use super::manifests::withdraw;
use super::outcome::{Outcome, outcome};
use super::rows::{PodState, rows};
use crate::run::{StartedAgent, Stop, drain, unexpected_end};

/// Between two looks at pulls.
const TICK: Duration = Duration::from_millis(200);
/// Limit for the last output of ended containers.
const LOG_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for the removal of ended pods: a volume may hang.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A run in progress.
pub(super) struct Session {
    pub(super) agent: StartedAgent,
    /// The folder that the agent reads.
    pub(super) staging: PathBuf,
    pub(super) expected: usize,
    pub(super) display: Display<Box<dyn std::io::Write>>,
    pub(super) logs: Option<Logs>,
}

pub(super) struct Logs {
    pub(super) streams: LogStreams,
    pub(super) lines: mpsc::Receiver<String>,
}

/// Why a run ends.
enum End {
    Finished(u8),
    Stopped(&'static str),
}

/// How its pods ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodsEnd {
    Complete,
    /// The user did not want to wait.
    Abandoned,
}

/// The display while pods are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Show {
    Changes,
    Nothing,
}

impl Session {
    /// Runs to the end; returns the exit code. No pod of it runs afterwards.
    pub(super) async fn run(mut self, stop: &mut Stop) -> anyhow::Result<u8> {
        let end = self.watch(stop).await;
        let pods_end = match &end {
            Ok(End::Finished(_)) => {
                self.deliver_output().await?;
                withdraw(&self.staging)?;
                // The display keeps the result.
                let ended = tokio::time::timeout(CLEANUP_TIMEOUT, self.pods_ended(stop, Show::Nothing));
                ended.await.unwrap_or(Ok(PodsEnd::Abandoned))
            }
            Ok(End::Stopped(_)) => {
                self.display.note("stopping the pods; Ctrl-C again kills them")?;
                withdraw(&self.staging)?;
                self.pods_ended(stop, Show::Changes).await
            }
            Err(_) => Ok(PodsEnd::Abandoned),
        };
        if let Ok(PodsEnd::Abandoned) = pods_end {
            self.display.note("killing the pods")?;
        }
        self.agent.running.cancel.cancel();
        drain(&mut self.agent.running.stages).await;
        if let Some(embedded) = &self.agent.embedded {
            embedded.services.remove_everything().await?;
        }
        pods_end?;
        match end? {
            End::Finished(code) => Ok(code),
            // As a shell reports the end of a program by these signals.
            End::Stopped("SIGINT") => Ok(130),
            End::Stopped(_) => Ok(143),
        }
    }

    async fn watch(&mut self, stop: &mut Stop) -> anyhow::Result<End> {
        let mut changes = self.agent.running.views.statuses.changes();
        let mut tick = tokio::time::interval(TICK);
        loop {
            let pods = self.show()?;
            let statuses: Vec<_> = pods.into_iter().map(|pod| pod.status).collect();
            if let Outcome::Ended { exit_code } = outcome(self.expected, &statuses) {
                return Ok(End::Finished(exit_code));
            }
            // Output does not change the state of pods.
            loop {
                tokio::select! {
                    name = stop.next() => return Ok(End::Stopped(name)),
                    reason = unexpected_end(&mut self.agent.running.stages) => bail!("{reason}"),
                    line = next_line(&mut self.logs) => {
                        self.display.line(&line)?;
                        continue;
                    }
                    _ = tick.tick() => {
                        if self.pulls().is_empty() && !changes.has_changed().unwrap_or(false) {
                            continue;
                        }
                        changes.mark_unchanged();
                    }
                    _ = changes.changed() => {}
                }
                break;
            }
        }
    }

    /// Waits until nothing of the pods runs.
    async fn pods_ended(&mut self, stop: &mut Stop, show: Show) -> anyhow::Result<PodsEnd> {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            if show == Show::Changes {
                self.show()?;
            }
            let local = &self.agent.running.local;
            let all_finished = local.workers.all().iter().all(|worker| worker.phase == WorkerPhase::Finished);
            if local.published.desired.is_empty() && all_finished {
                return Ok(PodsEnd::Complete);
            }
            tokio::select! {
                _ = stop.next() => return Ok(PodsEnd::Abandoned),
                reason = unexpected_end(&mut self.agent.running.stages) => bail!("{reason}"),
                line = next_line(&mut self.logs) => self.display.line(&line)?,
                _ = tick.tick() => {}
            }
        }
    }

    /// Prints what ended containers have written last.
    async fn deliver_output(&mut self) -> anyhow::Result<()> {
        let Some(logs) = &mut self.logs else { return Ok(()) };
        let deadline = tokio::time::Instant::now() + LOG_TIMEOUT;
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        loop {
            while let Ok(line) = logs.lines.try_recv() {
                self.display.line(&line)?;
            }
            if logs.streams.are_finished() && logs.lines.is_empty() {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => return Ok(()),
                _ = tick.tick() => {}
            }
        }
    }

    fn show(&mut self) -> anyhow::Result<Vec<PodState>> {
        let pods = self.pods();
        self.display.update(&rows(&pods, &self.pulls()))?;
        if let Some(logs) = &mut self.logs {
            logs.streams.follow(&pods);
        }
        Ok(pods)
    }

    fn pods(&self) -> Vec<PodState> {
        let local = &self.agent.running.local;
        let mut pods = self.agent.running.views.desired.all();
        pods.sort_by(|a, b| {
            let key = |pod: &model::Pod| (pod.full_name.namespace.clone(), pod.full_name.name.clone());
            key(a).cmp(&key(b))
        });
        pods.into_iter()
            .map(|pod| PodState {
                status: self.agent.running.views.statuses.status(&pod.uid),
                last_error: local.workers.get(&pod.uid).and_then(|worker| worker.last_error.clone()),
                pod,
            })
            .collect()
    }

    fn pulls(&self) -> Vec<(String, runtime::images::PullProgress)> {
        let embedded = self.agent.embedded.as_ref();
        embedded.map(|embedded| embedded.services.pulls().running()).unwrap_or_default()
    }
}

/// Never without output to print.
async fn next_line(logs: &mut Option<Logs>) -> String {
    if let Some(logs) = logs
        && let Some(line) = logs.lines.recv().await
    {
        return line;
    }
    std::future::pending().await
}
