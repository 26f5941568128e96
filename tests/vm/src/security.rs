//! AppArmor, seccomp and user namespaces: what a container's process sees of them.

use std::fmt::Write;
use std::fs;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::agents::MANIFESTS;
use crate::guest::{eventually, sh, write};
use crate::node;
use crate::pods::{merged, pod, with_container};

const APPARMOR_PROFILE: &str = "profile vm-no-tmp flags=(attach_disconnected,mediate_deleted) {\n  file,\n  capability,\n  \
                                network,\n  signal,\n  ptrace,\n  unix,\n  deny /tmp/** w,\n}\n";

/// More starts side by side overload an emulated machine, so that the runtime misses deadlines.
const AT_ONCE: usize = 4;

/// Name of the pod, fields of the pod's spec, fields of its container, annotations.
fn cases() -> Vec<(&'static str, Value, Value, Value)> {
    let seccomp = |profile: Value| json!({"securityContext": {"seccompProfile": profile}});
    let apparmor = |profile: Value| json!({"securityContext": {"appArmorProfile": profile}});
    let localhost = |name: &str| json!({"type": "Localhost", "localhostProfile": name});
    let none = || json!({});
    let annotation = |profile: &str| json!({"container.apparmor.security.beta.kubernetes.io/main": profile});
    vec![
        ("nothing", none(), none(), none()),
        ("privileged", none(), json!({"securityContext": {"privileged": true}}), none()),
        ("seccomp-default", none(), seccomp(json!({"type": "RuntimeDefault"})), none()),
        ("seccomp-none", none(), seccomp(json!({"type": "Unconfined"})), none()),
        ("seccomp-file", none(), seccomp(localhost("no-mkdir.json")), none()),
        ("seccomp-missing", none(), seccomp(localhost("missing.json")), none()),
        ("seccomp-pod", seccomp(json!({"type": "RuntimeDefault"})), none(), none()),
        (
            "seccomp-both",
            seccomp(json!({"type": "RuntimeDefault"})),
            seccomp(json!({"type": "Unconfined"})),
            none(),
        ),
        ("apparmor-default", none(), apparmor(json!({"type": "RuntimeDefault"})), none()),
        ("apparmor-none", none(), apparmor(json!({"type": "Unconfined"})), none()),
        ("apparmor-loaded", none(), apparmor(localhost("vm-no-tmp")), none()),
        ("apparmor-missing", none(), apparmor(localhost("vm-missing")), none()),
        ("apparmor-pod", apparmor(localhost("vm-no-tmp")), none(), none()),
        ("apparmor-both", apparmor(localhost("vm-no-tmp")), apparmor(json!({"type": "Unconfined"})), none()),
        ("apparmor-noted", none(), none(), annotation("localhost/vm-no-tmp")),
        ("apparmor-noted-none", none(), none(), annotation("unconfined")),
    ]
}

/// For each case the confinement of the process, or why it did not start.
pub(crate) fn confinement() -> Result<String> {
    write("/etc/apparmor.d/vm-no-tmp", APPARMOR_PROFILE)?;
    sh("apparmor_parser -r /etc/apparmor.d/vm-no-tmp")?;
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}],
    });
    write("/var/lib/kubelet/seccomp/no-mkdir.json", &profile.to_string())?;
    let script = "grep -E '^(Seccomp|NoNewPrivs|CapEff):' /proc/self/status; \
                  echo AppArmor: $(cat /proc/self/attr/current); \
                  mkdir /made 2>/dev/null && echo mkdir: yes || echo mkdir: no; \
                  touch /tmp/file 2>/dev/null && echo write to /tmp: yes || echo write to /tmp: no; \
                  echo END; exec sleep 1000000";
    let mut text = String::new();
    for cases in cases().chunks(AT_ONCE) {
        for (name, spec, container, annotations) in cases {
            // The shell ignores SIGTERM.
            let base = json!({"metadata": {"annotations": annotations}, "spec": {"terminationGracePeriodSeconds": 1}});
            let base = merged(merged(pod(name, ""), base), json!({"spec": spec}));
            let base = with_container(
                base,
                json!({"image": "podward.test/busybox:1", "args": null, "command": ["sh", "-c", script]}),
            );
            node::add(&with_container(base, container.clone()))?;
        }
        for (name, ..) in cases {
            for line in eventually(&format!("{name} has run or was refused"), || outcome(name))?.lines() {
                writeln!(text, "{name}: {line}")?;
            }
            fs::remove_file(format!("{MANIFESTS}/{name}.json"))?;
        }
        node::wait_settled()?;
    }
    Ok(text)
}

/// The output up to `END`, or the reason why the container does not start.
fn outcome(name: &str) -> Result<String> {
    if let Ok(log) = node::log(name, "main")
        && let Some((output, _)) = log.split_once("END\n")
    {
        return Ok(output.to_owned());
    }
    let pod = node::pod(name)?;
    let status = node::statuses(&pod).pop().unwrap_or_default();
    let reason = node::text(&status, "/state/waiting/reason");
    let message = node::text(&status, "/state/waiting/message");
    ensure!(!is_timeout(&message), "{message}");
    let rejected = node::text(&pod, "/status/reason");
    let known = |reason: &str| {
        matches!(reason, "CreateContainerError" | "CreateContainerConfigError" | "Blocked" | "AppArmor")
    };
    ensure!(known(&reason) || known(&rejected) || reason == "RunContainerError", "{:?}", pod.get("status"));
    let reason = if rejected.is_empty() { reason } else { rejected };
    Ok(format!("not started: {reason}\n"))
}

/// A slow machine, not the confinement, is the reason; the agent tries again.
fn is_timeout(message: &str) -> bool {
    ["deadline", "no answer", "timed out", "canceled"].iter().any(|word| message.contains(word))
}

/// A pod in its own user namespace with volumes, whose files belong to root inside and outside (idmapped mounts).
pub(crate) fn user_namespace() -> Result<String> {
    let script = "awk '{print \"map:\", $1, ($2 >= 65536 && $2 % 65536 == 0) ? \"shifted\" : $2, $3}' /proc/self/uid_map; \
                  stat -c 'owner of %n: %u' /data /told/name; touch /data/new && stat -c 'owner of %n: %u' /data/new; \
                  echo END; exec sleep 1000000";
    let manifest = merged(
        pod("userns", ""),
        json!({"spec": {
            "hostUsers": false, "hostNetwork": null,
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "told", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ],
        }}),
    );
    let manifest = with_container(
        manifest,
        json!({
            "image": "podward.test/busybox:1", "args": null, "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "told", "mountPath": "/told"}],
        }),
    );
    node::add(&manifest)?;
    let text = eventually("pod with user namespace has run or was refused", || {
        if let Ok(log) = node::log("userns", "main")
            && let Some((output, _)) = log.split_once("END\n")
        {
            let uid = node::text(&node::pod("userns")?, "/metadata/uid");
            let file = format!("/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/data/new");
            let owner = sh(&format!("stat -c %u {file}"))?;
            return Ok(format!("{output}owner on the host: {owner}"));
        }
        let events = sh(
            "journalctl -u podward -u kubelet --no-pager -o cat | grep -i userns | grep -i 'user namespaces' | tail -n 1",
        )?;
        ensure!(events.contains("does not support"), "{events}");
        Ok("refused: the runtime does not support user namespaces\n".to_owned())
    })?;
    fs::remove_file(format!("{MANIFESTS}/userns.json"))?;
    Ok(text)
}
