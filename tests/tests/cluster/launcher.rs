//! Tests the control plane that other scenarios use, without a node.

use parking_lot::Mutex;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::control_plane::ControlPlane;
use testkit::poll::eventually;
use testkit::process::is_zombie;

#[test]
fn control_plane_starts_serves_and_cleans_up() -> Result<()> {
    run(async {
        let plane = ControlPlane::start().await?;
        println!("started in {:?}", plane.start_time());
        let processes = plane.processes();
        ensure!(processes.len() == 4, "{processes:?}");
        a_node_sees_itself_only(&plane).await?;
        the_audit_log_tells(&plane)?;
        let folder = plane.folder().to_path_buf();
        drop(plane);
        ensure!(processes.iter().all(|pid| is_zombie(*pid)), "processes are left");
        ensure!(!folder.exists(), "{} is left", folder.display());
        Ok(())
    })
}

async fn a_node_sees_itself_only(plane: &ControlPlane) -> Result<()> {
    for name in ["node-one", "node-two"] {
        plane.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await?;
    }
    let kubeconfig = plane.node_kubeconfig("node-one")?.display().to_string();
    let node = plane.kubectl(&["--kubeconfig", &kubeconfig, "get", "node", "node-one", "-o", "json"]).await?;
    let node: Value = serde_json::from_str(&node)?;
    ensure!(node.pointer("/metadata/name") == Some(&json!("node-one")), "{node}");
    let foreign = plane.kubectl(&["--kubeconfig", &kubeconfig, "get", "node", "node-two"]).await;
    let error = format!("{:#}", foreign.err().context("a node can read another node")?);
    ensure!(error.contains("Forbidden"), "{error}");
    Ok(())
}

fn the_audit_log_tells(plane: &ControlPlane) -> Result<()> {
    let requests = plane.requests_of_node("node-one")?;
    let gets = requests.iter().filter(|request| request.resource == "nodes" && request.verb == "get");
    let seen: Vec<(&str, u16)> = gets.map(|request| (request.name.as_str(), request.code)).collect();
    ensure!(seen == [("node-one", 200), ("node-two", 403)], "{seen:?}");
    Ok(())
}

#[test]
fn restarted_api_server_keeps_its_data() -> Result<()> {
    run(async {
        let plane = ControlPlane::shared().await?;
        plane.kubectl(&["create", "namespace", "outage"]).await?;
        plane.stop_api_server()?;
        ensure!(plane.kubectl(&["get", "namespace", "outage"]).await.is_err(), "it still answers");
        plane.start_api_server().await?;
        plane.kubectl(&["get", "namespace", "outage"]).await.map(drop)
    })
}

#[test]
fn bootstrap_token_may_only_request_certificates() -> Result<()> {
    run(async {
        let plane = ControlPlane::shared().await?;
        let kubeconfig = plane.bootstrap_kubeconfig()?.display().to_string();
        let denied = plane.kubectl(&["--kubeconfig", &kubeconfig, "get", "nodes"]).await;
        ensure!(format!("{denied:?}").contains("Forbidden"), "{denied:?}");
        let may = ["--kubeconfig", &kubeconfig, "auth", "can-i", "create", "certificatesigningrequests"];
        ensure!(plane.kubectl(&may).await?.trim() == "yes", "a bootstrap token may ask for a certificate");
        Ok(())
    })
}

/// The child is this test binary; it starts a control plane and is then killed.
#[test]
fn killed_test_leaves_no_processes() -> Result<()> {
    const MARK: &str = "PODWARD_TEST_WAITS_TO_BE_KILLED";
    if std::env::var_os(MARK).is_some() {
        return run(async {
            let plane = ControlPlane::shared().await?;
            let pids: Vec<String> = plane.processes().iter().map(ToString::to_string).collect();
            std::fs::write(std::env::var(MARK)?, format!("{} {}", plane.folder().display(), pids.join(" ")))?;
            std::future::pending().await
        });
    }
    let marker = tempfile::NamedTempFile::new()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "launcher::killed_test_leaves_no_processes"])
        .env(MARK, marker.path())
        .spawn()?;
    let result = run(async {
        let text = eventually("the child has started", Duration::from_secs(60), async || {
            let text = std::fs::read_to_string(marker.path())?;
            ensure!(text.split_whitespace().count() == 5, "{text:?}");
            Ok(text)
        })
        .await?;
        child.kill()?;
        child.wait()?;
        eventually("all is gone", Duration::from_secs(10), async || {
            let (folder, pids) = text.split_once(' ').context("folder and processes")?;
            ensure!(!std::fs::exists(folder)?, "{folder} is left");
            let left =
                pids.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| !is_zombie(*pid));
            ensure!(left.is_none(), "process {left:?} is left");
            Ok(())
        })
        .await
    });
    let _ = child.kill();
    let _ = child.wait();
    result
}

/// Runs one test at a time: they share a control plane, and one of them stops its API server.
fn run(work: impl Future<Output = Result<()>>) -> Result<()> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}
