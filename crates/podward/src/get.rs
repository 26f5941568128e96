//! `podward get` and `podward events`: look at a running agent through its read-only port.

mod events;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::Pod;
use model::Timestamp;
use ports::clock::{Clock, SystemClock};
use serde_json::Value;

pub use events::run as run_events;

const DEFAULT_SERVER: &str = "127.0.0.1:10255";

/// Runs the command.
///
/// # Errors
/// When the agent cannot be asked.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    let mut what = None;
    let mut server = DEFAULT_SERVER.to_owned();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--server" {
            server = arguments.next().context("--server needs HOST:PORT")?.clone();
        } else if let Some(value) = argument.strip_prefix("--server=") {
            server = value.to_owned();
        } else if what.is_none() {
            what = Some(argument.as_str());
        } else {
            bail!("unexpected argument {argument:?}");
        }
    }
    let path = match what {
        Some("pods" | "pod" | "po") => "/pods",
        Some("manifests" | "manifest") => "/podward/manifests",
        Some("events" | "event" | "ev") => return events::run(&["--server".to_owned(), server]),
        Some(other) => bail!("cannot get {other:?}; one of pods, manifests, events"),
        None => bail!("usage: podward get pods|manifests|events [--server HOST:PORT]"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let body = runtime.block_on(fetch(&server, path))?;
    let text = match path {
        "/pods" => pods(&body)?,
        _ => manifests(&body)?,
    };
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

async fn fetch(server: &str, path: &str) -> anyhow::Result<Bytes> {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let uri: http::Uri =
        format!("http://{server}{path}").parse().with_context(|| format!("--server {server:?}"))?;
    let asked = async {
        let response = client.get(uri).await?;
        let status = response.status();
        if !status.is_success() {
            bail!("the agent answered {status}");
        }
        Ok(response.into_body().collect().await?.to_bytes())
    };
    tokio::time::timeout(Duration::from_secs(10), asked)
        .await
        .unwrap_or_else(|_| bail!("no answer within 10 s"))
        .with_context(|| format!("ask the agent at {server} (is it running, with readOnlyPort set?)"))
}

fn pods(body: &[u8]) -> anyhow::Result<String> {
    let list: Value = serde_json::from_slice(body).context("read the agent's answer")?;
    let mut rows = vec![row(["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"])];
    for item in list.get("items").and_then(Value::as_array).into_iter().flatten() {
        let pod: Pod = serde_json::from_value(item.clone()).context("read a pod of the answer")?;
        rows.push(pod_row(&pod));
    }
    if rows.len() == 1 {
        return Ok("No pods.\n".to_owned());
    }
    Ok(table(&rows))
}

fn pod_row(pod: &Pod) -> Vec<String> {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let wanted = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    let ready = containers.iter().filter(|container| container.ready).count();
    let restarts: i32 = containers.iter().map(|container| container.restart_count).sum();
    // The most telling word: why a container waits or how it ended, else the phase.
    let telling = containers.iter().find_map(|container| {
        let state = container.state.as_ref()?;
        let waiting = state.waiting.as_ref().and_then(|waiting| waiting.reason.clone());
        waiting.or_else(|| state.terminated.as_ref().and_then(|ended| ended.reason.clone()))
    });
    let phase = status.reason.or(telling).or(status.phase).unwrap_or_default();
    let started = status.start_time.as_ref().map(Timestamp::from_api_time);
    let age = started.map(|time| age(SystemClock.now().since(time))).unwrap_or_default();
    row([
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        pod.metadata.name.as_deref().unwrap_or_default(),
        &format!("{ready}/{wanted}"),
        &phase,
        &restarts.to_string(),
        &age,
        status.pod_ip.as_deref().unwrap_or("<none>"),
    ])
}

fn manifests(body: &[u8]) -> anyhow::Result<String> {
    let list: Vec<Value> = serde_json::from_slice(body).context("read the agent's answer")?;
    if list.is_empty() {
        return Ok("No manifest files.\n".to_owned());
    }
    let mut rows = vec![row(["FILE", "STATE", "CONTENT", "PROBLEM"])];
    for item in &list {
        let texts = |field: &str| {
            let items = item.get(field).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let text = |field: &str| item.get(field).and_then(Value::as_str).unwrap_or_default();
        rows.push(row([
            text("path"),
            text("state"),
            &[texts("pods"), texts("objects")].concat().join(","),
            &texts("problems").join("; "),
        ]));
    }
    Ok(table(&rows))
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Columns as wide as their widest cell, three blanks apart, as kubectl prints them.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}   "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A duration in kubectl's short form.
fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_shown_as_kubectl_would() {
        let body = serde_json::json!({"kind": "PodList", "apiVersion": "v1", "items": [{
            "metadata": {"name": "web-node", "namespace": "default"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.2", "containerStatuses": [
                {"name": "a", "image": "x", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
                {"name": "b", "image": "x", "imageID": "", "ready": false, "restartCount": 3,
                 "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}]});
        let text = pods(body.to_string().as_bytes()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "NAMESPACE   NAME       READY   STATUS             RESTARTS   AGE   IP");
        assert_eq!(lines[1], "default     web-node   1/2     CrashLoopBackOff   3                10.0.0.2");
    }

    #[test]
    fn ages_are_short() {
        assert_eq!(age(Duration::from_secs(5)), "5s");
        assert_eq!(age(Duration::from_secs(600)), "10m");
        assert_eq!(age(Duration::from_secs(90_000)), "25h");
        assert_eq!(age(Duration::from_secs(400_000)), "4d");
    }
}
