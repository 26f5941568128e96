//! Copies between a client and a process.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::backend::{AttachedProcess, ExecProcess, StreamBackend};
use super::client::{Client, Output};
use super::copying::{Streams, copy_input, copy_outputs, resize_terminal};
use super::status::Outcome;
use super::tokens::{AttachRequest, ExecRequest};
use crate::launcher::TerminalSize;

/// How long the end of a killed process is awaited.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The container's exit is reported separately from the end of its output.
const ENDED_TIMEOUT: Duration = Duration::from_secs(5);

/// Executes a command for a client. If the client leaves, the process is killed.
pub(super) async fn exec(backend: Arc<dyn StreamBackend>, request: ExecRequest, client: Client) {
    let ExecRequest { container, command, options } = request;
    let failed =
        |error: &dyn Display| Outcome::Failure(format!("error executing command in container: {error}"));
    let Client { input, size, output, gone } = client;
    let ExecProcess { streams, mut exit, kill } = match backend.exec(&container, &command, options).await {
        Ok(process) => process,
        Err(error) => return finish(&output, failed(&error)).await,
    };
    let streams = match Streams::new(streams) {
        Ok(streams) => streams,
        Err(error) => {
            kill.await;
            return finish(&output, failed(&error)).await;
        }
    };
    let (exited, has_exited) = watch::channel(false);
    let code = async {
        let code = (&mut exit).await;
        exited.send_replace(true);
        code
    };
    let outputs = copy_outputs(streams.stdout, streams.stderr, &output, has_exited);
    let input_ended = AtomicBool::new(false);
    let result = tokio::select! {
        () = gone.cancelled() => None,
        (code, ()) = async { tokio::join!(code, outputs) } => Some(code),
        never = copy_input(streams.stdin, input, &input_ended) => match never {},
        never = resize_terminal(streams.terminal, size) => match never {},
    };
    match result {
        Some(Ok(0)) => finish(&output, Outcome::Success).await,
        Some(Ok(code)) => finish(&output, Outcome::ExitCode { command, code }).await,
        Some(Err(error)) => finish(&output, failed(&error)).await,
        None => {
            kill.await;
            // Either the process has ended or the keeper has.
            let _ = timeout(KILL_TIMEOUT, exit).await;
        }
    }
}

/// Connects a client with the first process of a container.
pub(super) async fn attach(backend: Arc<dyn StreamBackend>, request: AttachRequest, client: Client) {
    let AttachRequest { container, options } = request;
    let failed = |error: &dyn Display| Outcome::Failure(format!("error attaching to container: {error}"));
    let Client { input, size, output, gone } = client;
    let AttachedProcess { streams, mut ended } = match backend.attach(&container, options).await {
        Ok(attached) => attached,
        Err(error) => return finish(&output, failed(&error)).await,
    };
    let streams = match Streams::new(streams) {
        Ok(streams) => streams,
        Err(error) => return finish(&output, failed(&error)).await,
    };
    // The keeper closes the pipes when the container ends.
    let (_exited, has_exited) = watch::channel(false);
    let input_ended = AtomicBool::new(false);
    let has_output = streams.stdout.is_some() || streams.stderr.is_some();
    let outputs = async {
        copy_outputs(streams.stdout, streams.stderr, &output, has_exited).await;
        if !has_output {
            (&mut ended).await;
        }
    };
    let left = tokio::select! {
        () = gone.cancelled() => true,
        () = outputs => false,
        never = copy_input(streams.stdin, input, &input_ended) => match never {},
        never = resize_container(&*backend, &container, size) => match never {},
    };
    if left {
        return;
    }
    // The keeper ends a session together with the container or with the client's input.
    let is_complete =
        !has_output || input_ended.load(Ordering::Relaxed) || timeout(ENDED_TIMEOUT, ended).await.is_ok();
    let outcome =
        if is_complete { Outcome::Success } else { failed(&"the client did not read the output in time") };
    finish(&output, outcome).await;
}

async fn resize_container(
    backend: &dyn StreamBackend,
    container: &str,
    mut size: watch::Receiver<Option<TerminalSize>>,
) -> Infallible {
    while size.changed().await.is_ok() {
        let latest = *size.borrow_and_update();
        if let Some(latest) = latest {
            // A container that ends at the same time has no terminal any more.
            let _ = backend.resize(container, latest).await;
        }
    }
    std::future::pending().await
}

async fn finish(output: &mpsc::Sender<Output>, outcome: Outcome) {
    // A client that has left does not need the status.
    let _ = output.send(Output::Status(outcome)).await;
}
