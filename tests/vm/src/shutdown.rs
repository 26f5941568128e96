//! A real power-off with graceful shutdown, and the boot after it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::agents::Agent;
use crate::guest::eventually;
use crate::pods::{merged, pod};
use crate::{agents, node};

/// Pods by the end of which the order is checked: critical pods end after all others.
const PODS: [(&str, Option<&str>); 2] = [("ordinary", None), ("critical", Some("system-node-critical"))];

/// Runs the pods; the check's end powers the machine off.
pub(crate) fn prepare() -> Result<()> {
    crate::guest::sh("systemctl enable podward 2>&1; systemctl is-active systemd-logind")?;
    for (name, class) in PODS {
        let manifest = merged(
            pod(name, "serve --port 0 --linger 3"),
            json!({"spec": {"terminationGracePeriodSeconds": 60}}),
        );
        let manifest = merged(manifest, json!({"spec": {"priorityClassName": class}}));
        let manifest = if class.is_some() {
            merged(
                manifest,
                json!({"spec": {"priority": 2_000_001_000}, "metadata": {"namespace": "kube-system"}}),
            )
        } else {
            manifest
        };
        node::add(&manifest)?;
        node::wait_running(name)?;
    }
    eventually("agent delays shutdown", || {
        let list = crate::guest::sh(
            "busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager ListInhibitors",
        )?;
        ensure!(list.contains("shutdown") && list.contains("delay"), "{list}");
        Ok(())
    })
}

/// Times at which the containers of the first boot noted SIGTERM.
pub(crate) fn ended_in_order() -> Result<()> {
    let ends: Vec<String> = PODS.iter().map(|(name, _)| stop_time(name)).collect::<Result<_>>()?;
    ensure!(ends.is_sorted() && ends.iter().all(|end| !end.is_empty()), "ends of {PODS:?}: {ends:?}");
    Ok(())
}

fn stop_time(name: &str) -> Result<String> {
    let logs = log_files(name)?;
    let first = logs.first().with_context(|| format!("no log of {name}"))?;
    let lines = node::log_lines(first)?;
    let line = lines.iter().find(|(_, text)| text == "asked to stop");
    Ok(line.with_context(|| format!("{name} was not asked to stop: {lines:?}"))?.0.clone())
}

/// Logs of all runs of the pod's container, oldest first.
fn log_files(name: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir("/var/log/pods")?.flatten() {
        if entry.file_name().to_string_lossy().contains(&format!("_{name}-vm_")) {
            files.extend(fs::read_dir(entry.path().join("main"))?.flatten().map(|entry| entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

pub(crate) fn run_again() -> Result<()> {
    agents::switch_to(Agent::Podward)?;
    for (name, _) in PODS {
        node::wait_running(name)?;
        let pod = node::pod(name)?;
        let status = node::statuses(&pod).pop().context("no status")?;
        ensure!(status.get("restartCount") == Some(&json!(1)), "{name}: {status}");
    }
    Ok(())
}
