//! The node through its agent's read-only port, and through containerd.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::agents::MANIFESTS;
use crate::guest::{TIMEOUT, eventually, sh, write};

pub(crate) fn get(path: &str) -> Result<String> {
    get_from(10255, path)
}

pub(crate) fn get_from(port: u16, path: &str) -> Result<String> {
    request(port, "GET", path, "", "")
}

/// One HTTP request to a local port; an error contains the response.
pub(crate) fn request(port: u16, method: &str, path: &str, content_type: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).with_context(|| format!("connect to {port}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // HTTP/1.0, so that the response is not chunked.
    let mut head = format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n");
    if !body.is_empty() {
        write!(head, "Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len())?;
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text).with_context(|| format!("read {path}"))?;
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("{path}: not HTTP: {text}"))?;
    let code = head.split(' ').nth(1).unwrap_or_default();
    ensure!(code.starts_with('2'), "{method} {path}: {head}\n{body}");
    Ok(body.to_owned())
}

pub(crate) fn pods() -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(&get("/pods")?).context("parse /pods")?;
    Ok(list.get("items").and_then(Value::as_array).cloned().unwrap_or_default())
}

/// The pod of the manifest with this name.
pub(crate) fn pod(name: &str) -> Result<Value> {
    let full = format!("{name}-vm");
    let mut found = pods()?.into_iter().filter(|pod| text(pod, "/metadata/name") == full);
    found.next().with_context(|| format!("pod {full} is not known"))
}

pub(crate) fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

pub(crate) fn statuses(pod: &Value) -> Vec<Value> {
    pod.pointer("/status/containerStatuses").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Writes a manifest atomically.
pub(crate) fn add(pod: &Value) -> Result<()> {
    let name = text(pod, "/metadata/name");
    let hidden = format!("{MANIFESTS}/.{name}.new");
    write(&hidden, &pod.to_string())?;
    fs::rename(&hidden, format!("{MANIFESTS}/{name}.json")).with_context(|| format!("rename {hidden}"))
}

pub(crate) fn wait_running(name: &str) -> Result<()> {
    eventually(&format!("pod {name} runs"), || {
        let pod = pod(name)?;
        let statuses = statuses(&pod);
        let running = statuses.iter().filter(|status| status.pointer("/state/running").is_some()).count();
        let expected = pod.pointer("/spec/containers").and_then(Value::as_array).map_or(0, Vec::len);
        ensure!(running == expected, "{running} of {expected} containers run: {:?}", pod.get("status"));
        Ok(())
    })
}

/// Removes all manifests and waits until the agent has no pod and the runtime no task.
pub(crate) fn remove_all() -> Result<()> {
    for entry in fs::read_dir(MANIFESTS)?.flatten() {
        fs::remove_file(entry.path())?;
    }
    eventually("all pods are gone", || {
        ensure!(pods()?.is_empty(), "pods are left");
        let tasks = tasks()?;
        ensure!(tasks.is_empty(), "{} tasks are left", tasks.len());
        let slices = sh(
            "find /sys/fs/cgroup/kubepods.slice -mindepth 1 -type d -name '*pod*' | grep -c -- '-pod' || true",
        )?;
        ensure!(slices.trim() == "0", "{} pod cgroups are left", slices.trim());
        Ok(())
    })
}

/// Waits until the pods of removed manifests are gone, and their tasks with them.
pub(crate) fn wait_settled() -> Result<()> {
    eventually("pods of removed manifests are gone", || {
        let manifests = fs::read_dir(MANIFESTS)?.count();
        let pods = pods()?.len();
        ensure!(pods == manifests, "{pods} pods, {manifests} manifests");
        let stopped = tasks()?.into_iter().filter(|task| !task.ends_with(" RUNNING")).count();
        ensure!(stopped == 0, "{stopped} tasks do not run");
        Ok(())
    })
}

/// IDs and processes of all containers and sandboxes: equal before and after means that nothing was restarted.
pub(crate) fn tasks() -> Result<BTreeSet<String>> {
    let list = sh("ctr -n k8s.io tasks ls")?;
    Ok(list.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

/// The log of a container's newest run without times.
pub(crate) fn log(name: &str, container: &str) -> Result<String> {
    let pod = pod(name)?;
    let uid = match text(&pod, "/metadata/annotations/kubernetes.io~1config.hash") {
        hash if hash.is_empty() => text(&pod, "/metadata/uid"),
        hash => hash,
    };
    let folder = format!("/var/log/pods/default_{name}-vm_{uid}/{container}");
    let mut files: Vec<_> =
        fs::read_dir(&folder).with_context(|| folder.clone())?.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let newest = files.last().with_context(|| format!("no log in {folder}"))?;
    Ok(log_lines(newest)?.into_iter().map(|(_, line)| line + "\n").collect())
}

/// Time and text of each line of a container log.
pub(crate) fn log_lines(path: &Path) -> Result<Vec<(String, String)>> {
    let content = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let parse = |line: &str| {
        let mut parts = line.splitn(4, ' ');
        let time = parts.next().unwrap_or_default().to_owned();
        (time, parts.nth(2).unwrap_or_default().to_owned())
    };
    Ok(content.lines().map(parse).collect())
}
