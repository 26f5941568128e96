//! A cluster made by kubeadm on two machines in namespaces, whose kubelet is the agent under test.
//!
//! `make kubeadm` runs this on podward and on the upstream kubelet. The steps are those of an administrator: `kubeadm
//! init`, a pod network, `kubeadm join` with a token, approved serving certificates, a Deployment, drain and uncordon,
//! a switch to the other agent and back, edited manifests of the control plane, and `kubeadm upgrade apply`.

mod cluster;
mod configuration;
mod switch;
mod upgrade;
mod workload;

use std::time::Instant;

use anyhow::{Result, ensure};
use cluster::Cluster;
use scenarios::{Agent, scenarios};
use testkit::host_state::HostState;

scenarios!(cluster_is_created_used_and_upgraded);

async fn cluster_is_created_used_and_upgraded(agent: Agent) -> Result<()> {
    let before = HostState::read()?;
    let mut instances = Vec::new();
    let result = run_cluster(agent, &mut instances).await;
    let changes = HostState::read()?.changes_since(&before, &instances);
    result?;
    ensure!(changes.is_empty(), "the host has changed:\n{}", changes.join("\n"));
    Ok(())
}

/// The machines are gone when it returns; `instances` gets the names of what they used on the host.
async fn run_cluster(agent: Agent, instances: &mut Vec<String>) -> Result<()> {
    let start = Instant::now();
    let step = |name: &str| println!("{:>6.1} s  {name}", start.elapsed().as_secs_f64());
    let cluster = Cluster::boot(agent).await?;
    instances.extend(cluster.instances());
    step("machines booted");
    cluster.init().await?;
    step("kubeadm init");
    cluster.complete_node(&cluster.first).await?;
    step("first node is ready");
    cluster.join().await?;
    step("kubeadm join");
    cluster.complete_node(&cluster.second).await?;
    step("second node is ready");

    workload::deploy(&cluster).await?;
    workload::check_network(&cluster).await?;
    step("a Deployment runs on both nodes");
    workload::drain_and_uncordon(&cluster).await?;
    step("the second node was drained and used again");

    switch::switch_agents(&cluster, agent).await?;
    step("both nodes were switched to the other agent and back");

    upgrade::edit_manifests(&cluster).await?;
    step("edited manifests rolled the control plane");
    upgrade::upgrade_with_kubeadm(&cluster).await?;
    step("kubeadm upgrade rolled the control plane back");
    Ok(())
}
