//! Confinement of processes: root file system, kernel files, system calls.

use std::fs;

use anyhow::{Result, ensure};
use scenarios::{Agent, AgentOptions, Node, container, pod, scenarios, with};
use serde_json::{Value, json};

use crate::{line, waiting};

scenarios!(
    kernel_mounts_are_masked_unless_privileged,
    seccomp_profile_comes_from_container_pod_or_node,
    missing_seccomp_profile_blocks_only_its_container,
);

fn in_context(name: &str, steps: &str, context: Value) -> Value {
    with(container(name, steps), "/securityContext", context)
}

/// Mount points with their options.
fn options<'a>(log: &'a str, path: &str) -> Option<&'a str> {
    // A later mount covers an earlier one.
    log.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(1) == Some(&path)).then(|| words.get(3).copied())?
    })
}

fn is_read_only(log: &str, path: &str) -> bool {
    options(log, path).is_some_and(|options| options.split(',').any(|option| option == "ro"))
}

/// Kernels differ in which of these files exist; the existing ones are masked.
fn is_masked(log: &str) -> bool {
    let hidden = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"];
    hidden.iter().any(|path| options(log, path).is_some())
}

async fn kernel_mounts_are_masked_unless_privileged(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let steps = "mounts -- sleep forever";
    let manifest = pod(
        "web",
        [
            in_context("usual", steps, json!({})),
            in_context("sealed", steps, json!({"readOnlyRootFilesystem": true})),
            in_context("open", steps, json!({"privileged": true})),
        ],
    );
    node.write("web.json", &manifest)?;
    node.wait_running("web").await?;
    let usual = node.log("web", "usual").await?;
    ensure!(is_masked(&usual) && is_read_only(&usual, "/proc/sys"), "{usual}");
    ensure!(!is_read_only(&usual, "/"), "{usual}");
    let sealed = node.log("web", "sealed").await?;
    ensure!(is_read_only(&sealed, "/") && is_masked(&sealed), "{sealed}");
    let open = node.log("web", "open").await?;
    ensure!(!is_masked(&open) && !is_read_only(&open, "/proc/sys"), "{open}");
    Ok(())
}

async fn seccomp_profile_comes_from_container_pod_or_node(agent: Agent) -> Result<()> {
    let options = AgentOptions { overlay: json!({"seccompDefault": true}), ..AgentOptions::default() };
    let node = Node::start_with(agent, &options).await?;
    let profiles = node.agent.root().join("seccomp");
    fs::create_dir_all(&profiles)?;
    fs::write(profiles.join("allow.json"), r#"{"defaultAction": "SCMP_ACT_ALLOW"}"#)?;
    let steps = "id -- sleep forever";
    let profile = |kind: &str| json!({"seccompProfile": {"type": kind}});
    let local = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "allow.json"}});
    node.write("of-node.json", &pod("of-node", [container("main", steps)]))?;
    let of_pod = pod(
        "of-pod",
        [
            container("main", steps),
            in_context("own", steps, profile("RuntimeDefault")),
            in_context("local", steps, local),
        ],
    );
    node.write("of-pod.json", &with(of_pod, "/spec/securityContext", profile("Unconfined")))?;
    node.wait_running("of-node").await?;
    node.wait_running("of-pod").await?;
    for (pod, container, mode) in
        [("of-node", "main", "2"), ("of-pod", "main", "0"), ("of-pod", "own", "2"), ("of-pod", "local", "2")]
    {
        let log = node.log(pod, container).await?;
        ensure!(line(&log, "Seccomp")? == mode, "{pod}/{container}: {}", line(&log, "Seccomp")?);
    }
    Ok(())
}

async fn missing_seccomp_profile_blocks_only_its_container(agent: Agent) -> Result<()> {
    let node = Node::start(agent).await?;
    let local = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "missing.json"}});
    let manifest =
        pod("web", [in_context("bad", "sleep forever", local), container("good", "sleep forever")]);
    node.write("web.json", &manifest)?;
    node.wait_pod("web", "says why", |pod| {
        pod.container("bad").reason == "CreateContainerError" && pod.container("good").state == "running"
    })
    .await?;
    let (_, message) = waiting(&node, "web", "bad").await?;
    let path = node.agent.root().join("seccomp/missing.json");
    ensure!(message.contains(&path.display().to_string()), "{message}");
    Ok(())
}
