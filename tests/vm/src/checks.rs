//! The list of checks, in the order in which they run.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agents::{self, Agent};
use crate::guest::{eventually, pause, read, sh};
use crate::observations::{self, Observation};
use crate::pods::{pod, with_container, workload};
use crate::{cluster, file, journal, metrics, node, shutdown};

#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Result<()>,
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    /// Runs when its name is selected.
    Independent,
    /// Prepares the following checks of its list: runs when one of them is selected, and its failure ends the list.
    Preparation,
    /// Like a preparation; afterwards the machine is powered off.
    EndOfBoot,
}

const fn check(name: &'static str, run: fn() -> Result<()>) -> Check {
    Check { name, run, role: Role::Independent }
}

const fn preparation(name: &'static str, run: fn() -> Result<()>) -> Check {
    Check { name, run, role: Role::Preparation }
}

/// Lists of checks; the first list prepares the machine for all others.
pub(crate) const FIRST_BOOT: &[&[Check]] = &[MACHINE, PODWARD, UPSTREAM, SETTINGS, CLUSTER, POWER_OFF];

const MACHINE: &[Check] = &[
    preparation("machine_is_set_up", agents::set_up_machine),
    preparation("podward_is_ready_for_systemd", podward_is_ready_for_systemd),
    preparation("pods_run_under_podward", pods_run),
];

const PODWARD: &[Check] = &[
    check("cgroup_tree_is_the_expected_one", || observations::is_expected(Observation::Cgroups)),
    check("go_client_lists_pods_over_bare_socket_path", go_client_lists_pods),
    check("statistics_are_read", || metrics::record(Agent::Podward)),
    check("restart_of_agent_restarts_no_container", restart_of_agent),
    check("killed_agent_restarts_no_container", kill_of_agent),
    check("watchdog_restarts_stopped_agent_and_no_container", watchdog),
    check("restart_of_containerd_restarts_no_container", restart_of_containerd),
    check("oom_kill_is_the_expected_one", || observations::is_expected(Observation::Oom)),
    check("confinement_is_the_expected_one", || observations::is_expected(Observation::Confinement)),
    check("user_namespace_is_the_expected_one", || observations::is_expected(Observation::UserNamespace)),
    check("switch_to_upstream_restarts_no_container", || switch(Agent::Upstream)),
    check("switch_to_podward_restarts_no_container", || switch(Agent::Podward)),
];

const UPSTREAM: &[Check] = &[
    preparation("pods_run_under_upstream", upstream_starts_over),
    check("cgroup_tree_equals_upstream", || observations::equals_upstream(Observation::Cgroups)),
    check("go_client_lists_pods_of_upstream", go_client_lists_pods),
    check("statistics_equal_upstream", metrics::equal_upstream),
    check("oom_kill_equals_upstream", || observations::equals_upstream(Observation::Oom)),
    check("confinement_equals_upstream", || observations::equals_upstream(Observation::Confinement)),
    check("user_namespace_equals_upstream", || observations::equals_upstream(Observation::UserNamespace)),
];

const SETTINGS: &[Check] = &[
    preparation("podward_runs_without_pods", podward_without_pods),
    check("agent_moves_into_kubelet_cgroup", kubelet_cgroups),
    check("missing_reserved_cgroup_is_refused_at_start", || reserved_cgroup("/missing.slice", false)),
    check("existing_reserved_cgroup_is_limited", || reserved_cgroup("/system.slice", true)),
];

const CLUSTER: &[Check] = &[
    preparation("podward_runs_without_static_pods", podward_without_pods),
    preparation("control_plane_is_ready", cluster::start_control_plane),
    check("resize_is_the_expected_one", || observations::is_expected(Observation::Resize)),
    check("swap_is_the_expected_one", || observations::is_expected(Observation::Swap)),
    check("eviction_is_the_expected_one", || observations::is_expected(Observation::Eviction)),
    check("resize_equals_upstream", || observations::equals_upstream(Observation::Resize)),
    check("swap_equals_upstream", || observations::equals_upstream(Observation::Swap)),
    check("eviction_equals_upstream", || observations::equals_upstream(Observation::Eviction)),
];

const POWER_OFF: &[Check] = &[
    preparation("podward_is_standalone", standalone),
    Check { name: "shutdown_pods_run", run: shutdown::prepare, role: Role::EndOfBoot },
];

pub(crate) const SECOND_BOOT: &[&[Check]] = &[&[
    check("shutdown_ended_pods_in_order", shutdown::ended_in_order),
    check("shutdown_pods_run_again_after_reboot", shutdown::run_again),
    check("journal_has_no_unexpected_warnings", journal::has_no_unexpected_warnings),
]];

fn podward_is_ready_for_systemd() -> Result<()> {
    agents::switch_to(Agent::Podward)?;
    let state = sh("systemctl show podward -p Type -p ActiveState -p StatusText -p WatchdogUSec --value")?;
    ensure!(state.contains("notify") && state.contains("active"), "{state}");
    Ok(())
}

fn pods_run() -> Result<()> {
    let pods = workload();
    for pod in &pods {
        node::add(pod)?;
    }
    for pod in &pods {
        node::wait_running(&node::text(pod, "/metadata/name"))?;
    }
    Ok(())
}

/// Runs `action` and checks that every container and sandbox is still the same process.
fn keeps_containers(action: impl FnOnce() -> Result<()>) -> Result<()> {
    node::wait_settled()?;
    let before = node::tasks()?;
    ensure!(!before.is_empty(), "nothing runs");
    action()?;
    agents::wait_healthy()?;
    // Wrong decisions would be made in the first passes after a start.
    for _ in 0..10 {
        let after = node::tasks()?;
        let lost: BTreeSet<_> = before.symmetric_difference(&after).collect();
        ensure!(lost.is_empty(), "containers before or after, not both: {lost:?}");
        pause(Duration::from_secs(1));
    }
    Ok(())
}

/// A client with grpc-go that dials the socket by its bare path, which it sends escaped as the authority.
fn go_client_lists_pods() -> Result<()> {
    let client = file("podresources");
    let list = sh(&format!("{} /var/lib/kubelet/pod-resources/kubelet.sock", client.display()))?;
    let expected: BTreeSet<String> =
        node::pods()?.iter().map(|pod| format!("default/{}", node::text(pod, "/metadata/name"))).collect();
    let found: BTreeSet<String> = list.lines().map(str::to_owned).collect();
    ensure!(!found.is_empty() && found == expected, "the client lists {found:?}, the node has {expected:?}");
    Ok(())
}

fn restart_of_agent() -> Result<()> {
    keeps_containers(|| sh("systemctl restart podward").map(drop))
}

fn main_process() -> Result<String> {
    Ok(sh("systemctl show podward -p MainPID --value")?.trim().to_owned())
}

fn wait_new_process(old: &str) -> Result<()> {
    eventually("systemd starts the agent again", || {
        let process = main_process()?;
        ensure!(process != old && process != "0", "still {process}");
        Ok(())
    })
}

fn kill_of_agent() -> Result<()> {
    keeps_containers(|| {
        let process = main_process()?;
        sh(&format!("kill -9 {process}"))?;
        wait_new_process(&process)
    })
}

fn watchdog() -> Result<()> {
    keeps_containers(|| {
        let process = main_process()?;
        sh(&format!("kill -STOP {process}"))?;
        wait_new_process(&process)?;
        let log = sh("journalctl -u podward --no-pager -o cat | grep -i watchdog || true")?;
        ensure!(log.contains("Watchdog timeout"), "systemd logged no watchdog timeout: {log}");
        Ok(())
    })
}

fn restart_of_containerd() -> Result<()> {
    keeps_containers(|| sh("systemctl restart containerd").map(drop))?;
    let probe = pod("after-restart", "sleep forever");
    node::add(&probe)?;
    node::wait_running("after-restart")
}

fn switch(agent: Agent) -> Result<()> {
    keeps_containers(|| agents::switch_to(agent))
}

/// Upstream creates the same pods, so that nothing that podward made is compared with itself.
fn upstream_starts_over() -> Result<()> {
    agents::switch_to(Agent::Upstream)?;
    node::remove_all()?;
    pods_run()
}

fn podward_without_pods() -> Result<()> {
    agents::switch_to(Agent::Podward)?;
    node::remove_all()
}

/// Restarts podward with another configuration, runs `check`, and restores the configuration.
fn with_configuration(overlay: Value, check: impl FnOnce() -> Result<()>) -> Result<()> {
    agents::configure(overlay)?;
    let started = sh("systemctl restart podward");
    let result = check();
    agents::configure(json!({}))?;
    sh("systemctl restart podward")?;
    agents::wait_healthy()?;
    result.with_context(|| format!("restart: {started:?}"))
}

fn kubelet_cgroups() -> Result<()> {
    with_configuration(json!({"kubeletCgroups": "/node-agent.slice"}), || {
        eventually("agent is in its cgroup", || {
            let cgroup = read(format!("/proc/{}/cgroup", main_process()?))?;
            ensure!(cgroup.trim() == "0::/node-agent.slice", "{cgroup}");
            Ok(())
        })
    })
}

fn reserved_cgroup(name: &str, exists: bool) -> Result<()> {
    let overlay = json!({
        "enforceNodeAllocatable": ["pods", "system-reserved"],
        "systemReserved": {"cpu": "200m", "memory": "400Mi", "pid": "1500"},
        "systemReservedCgroup": name,
    });
    with_configuration(overlay, || {
        if exists {
            agents::wait_healthy()?;
            return eventually("reserved cgroup has its limits", || {
                let limits = read(format!("/sys/fs/cgroup{name}/pids.max"))?;
                ensure!(limits.trim() == "1500", "pids.max is {limits}");
                Ok(())
            });
        }
        eventually("agent refuses to start", || {
            let log = sh("journalctl -u podward --no-pager -o cat | tail -n 40")?;
            if !log.contains("has some missing paths") {
                bail!("no such reason in the log: {log}");
            }
            Ok(())
        })?;
        ensure!(read(format!("/sys/fs/cgroup{name}/pids.max")).is_err(), "{name} was created");
        Ok(())
    })
}

fn standalone() -> Result<()> {
    cluster::leave()?;
    podward_without_pods()
}

/// A pod that exceeds its limit, for the OOM observation.
pub(crate) fn greedy() -> Value {
    with_container(
        pod("greedy", "print starting -- fill 200 -- sleep forever"),
        json!({"resources": {"limits": {"memory": "40Mi", "cpu": "500m"}}}),
    )
}
