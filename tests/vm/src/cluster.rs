//! Pods of an API server: what static pods cannot show (resize, swap, eviction).
//!
//! The control plane is etcd and kube-apiserver only; pods name their node, so that no scheduler is needed.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agents::{self, Agent};
use crate::guest::{eventually, read, sh, write};
use crate::pods::{merged, pod, with_container};
use crate::{file, node};

const FOLDER: &str = "/var/lib/vm/control-plane";

/// Requests go through one `kubectl proxy`: each start of kubectl takes seconds of CPU time in emulation.
const PROXY_PORT: u16 = 8001;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// API groups that the server itself and the agents use. Each further group costs seconds at the start of an emulated server.
const API_GROUPS: &str = "api/all=false,api/v1=true,apiextensions.k8s.io/v1=true,apiregistration.k8s.io/v1=true,\
                          discovery.k8s.io/v1=true,networking.k8s.io/v1=true,coordination.k8s.io/v1=true,\
                          node.k8s.io/v1=true,resource.k8s.io/v1=true,storage.k8s.io/v1=true";

/// Plugins that wait for objects of other groups.
const NO_ADMISSION: &str = "ServiceAccount,Priority,LimitRanger,ResourceQuota,RuntimeClass,DefaultIngressClass,\
                            CertificateApproval,CertificateSigning,CertificateSubjectRestriction,\
                            MutatingAdmissionPolicy,MutatingAdmissionWebhook,ValidatingAdmissionPolicy,\
                            ValidatingAdmissionWebhook,ClusterTrustBundleAttest,PodTopologyLabels";

/// Starts etcd and kube-apiserver as services and waits until the API server is ready.
pub(crate) fn start_control_plane() -> Result<()> {
    let etcd = format!(
        "etcd --data-dir={FOLDER}/etcd --listen-client-urls=http://127.0.0.1:2379 \
         --advertise-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:2380 \
         --initial-advertise-peer-urls=http://127.0.0.1:2380 --initial-cluster=default=http://127.0.0.1:2380 \
         --unsafe-no-fsync --log-level=error"
    );
    let key = file("service-accounts.key");
    let server = format!(
        "{} --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --bind-address=127.0.0.1 --advertise-address=127.0.0.1 \
         --endpoint-reconciler-type=none --service-cluster-ip-range=10.96.0.0/16 --cert-dir={FOLDER}/certificates \
         --runtime-config={API_GROUPS} --disable-admission-plugins={NO_ADMISSION} --enable-priority-and-fairness=false \
         --request-timeout=10m --lease-reuse-duration-seconds=3600 \
         --token-auth-file={FOLDER}/tokens.csv --service-account-issuer=https://kubernetes.default.svc \
         --service-account-key-file={key} --service-account-signing-key-file={key} --authorization-mode=AlwaysAllow \
         --watch-cache=false --profiling=false",
        file("kube-apiserver").display(),
        key = key.display(),
    );
    write(
        format!("{FOLDER}/tokens.csv"),
        "admin-token,admin,1,system:masters\nnode-token,system:node:vm,2,system:nodes\n",
    )?;
    for (name, token) in [("admin", "admin-token"), ("node", "node-token")] {
        write(format!("{FOLDER}/{name}.kubeconfig"), &kubeconfig(token).to_string())?;
    }
    sh("mkdir -p -m 0700 /var/lib/vm/control-plane/etcd")?;
    sh(&format!("systemd-run --quiet --unit=vm-etcd {etcd}"))?;
    // Few garbage collections: the machine has more memory than processor time.
    sh(&format!("systemd-run --quiet --unit=vm-apiserver --setenv=GOGC=400 {server}"))?;
    let proxy = format!(
        "until [ -s {FOLDER}/certificates/apiserver.crt ]; do sleep 1; done; \
         exec {} --kubeconfig={FOLDER}/admin.kubeconfig proxy --port={PROXY_PORT}",
        file("kubectl").display()
    );
    sh(&format!("systemd-run --quiet --unit=vm-proxy sh -c '{proxy}'"))?;
    eventually("API server is ready", || api("GET", "/readyz", "", &Value::Null).map(drop))
}

/// Connects the agent to the API server, with changes of the configuration, and waits until the node is registered.
fn join(agent: Agent, overlay: Value) -> Result<()> {
    agents::configure(overlay)?;
    let options =
        format!("[Service]\nEnvironment=\"VM_AGENT_OPTIONS=--kubeconfig={FOLDER}/node.kubeconfig\"\n");
    write(format!("/etc/systemd/system/{}.service.d/cluster.conf", agent.unit()), &options)?;
    sh(&format!(
        "systemctl daemon-reload && systemctl stop podward kubelet && systemctl start {}",
        agent.unit()
    ))?;
    agents::wait_healthy()?;
    wait_condition("Ready", "True")
}

/// Makes the agents standalone again, and stops the control plane if it runs.
pub(crate) fn leave() -> Result<()> {
    if sh("systemctl is-active vm-apiserver").is_ok() {
        api("DELETE", &format!("{PODS}?gracePeriodSeconds=1"), "", &Value::Null)?;
        eventually("API pods are gone", || {
            let list: Value = serde_json::from_str(&api("GET", PODS, "", &Value::Null)?)?;
            let left = list.get("items").and_then(Value::as_array).map_or(0, Vec::len);
            ensure!(left == 0, "{left} pods are left");
            Ok(())
        })?;
    }
    // A graceful end of the API server takes longer than a minute, and nothing needs it.
    sh(
        "rm -f /etc/systemd/system/*.service.d/cluster.conf; systemctl daemon-reload; systemctl stop podward kubelet; \
        systemctl kill --signal=KILL vm-proxy vm-apiserver vm-etcd 2>/dev/null; swapoff -a",
    )?;
    agents::configure(json!({}))
}

/// A request to the API server; without a body if it is null. It is sent again while the server or the proxy is overloaded.
fn api(method: &str, path: &str, content_type: &str, body: &Value) -> Result<String> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut sent = false;
    eventually(&format!("{method} {path}"), || {
        let answer = node::request(PROXY_PORT, method, path, content_type, &body);
        let is_repeated = std::mem::replace(&mut sent, true);
        match answer {
            // A request whose answer was lost has been carried out.
            Err(error) if is_repeated && method == "POST" && has_code(&error, &["409"]) => {
                Ok(Ok(String::new()))
            }
            Err(error) if has_code(&error, &["400", "403", "404", "405", "409", "410", "415", "422"]) => {
                Ok(Err(error))
            }
            Err(error) => Err(error),
            Ok(answer) => Ok(Ok(answer)),
        }
    })?
}

/// Whether the error is an HTTP response with one of these codes.
fn has_code(error: &anyhow::Error, codes: &[&str]) -> bool {
    let text = format!("{error:#}");
    codes.iter().any(|code| {
        text.contains(&format!(": HTTP/1.0 {code} ")) || text.contains(&format!(": HTTP/1.1 {code} "))
    })
}

/// Status of a condition of the node.
fn node_condition(kind: &str) -> Result<String> {
    let node: Value = serde_json::from_str(&api("GET", "/api/v1/nodes/vm", "", &Value::Null)?)?;
    let conditions =
        node.pointer("/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let condition = conditions.iter().find(|condition| node::text(condition, "/type") == kind);
    Ok(condition.map(|condition| node::text(condition, "/status")).unwrap_or_default())
}

/// Deletes a pod and waits until the agent has confirmed it.
fn delete(name: &str) -> Result<()> {
    api("DELETE", &format!("{PODS}/{name}?gracePeriodSeconds=1"), "", &Value::Null)?;
    eventually(&format!("API pod {name} is gone"), || {
        ensure!(api_pod(name).is_err(), "still there");
        Ok(())
    })
}

fn kubeconfig(token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "vm",
        "clusters": [{"name": "vm", "cluster": {
            "server": "https://127.0.0.1:6443", "certificate-authority": format!("{FOLDER}/certificates/apiserver.crt"),
        }}],
        "users": [{"name": "vm", "user": {"token": token}}],
        "contexts": [{"name": "vm", "context": {"cluster": "vm", "user": "vm"}}],
    })
}

fn create(pod: Value) -> Result<()> {
    let pod = merged(pod, json!({"spec": {"nodeName": "vm", "automountServiceAccountToken": false}}));
    api("POST", PODS, "application/json", &pod).map(drop)
}

fn api_pod(name: &str) -> Result<Value> {
    serde_json::from_str(&api("GET", &format!("{PODS}/{name}"), "", &Value::Null)?).context("parse a pod")
}

fn wait_running(name: &str) -> Result<Value> {
    eventually(&format!("API pod {name} runs"), || {
        let pod = api_pod(name)?;
        let statuses = node::statuses(&pod);
        ensure!(
            statuses.first().is_some_and(|status| status.pointer("/state/running").is_some()),
            "{:?}",
            pod.get("status")
        );
        Ok(pod)
    })
}

/// Values of a file in the cgroups of the pod and its first container.
fn cgroup_values(pod: &Value, file: &str) -> Result<String> {
    let uid = node::text(pod, "/metadata/uid").replace('-', "_");
    let id = node::text(&node::statuses(pod).pop().context("no status")?, "/containerID");
    let id = id.rsplit('/').next().unwrap_or_default();
    let found = sh(&format!("find /sys/fs/cgroup/kubepods.slice -type d -name '*pod{uid}.slice'"))?;
    let folder = found.lines().next().context("pod has no cgroup")?;
    let own = read(format!("{folder}/{file}"))?;
    let container = read(format!("{folder}/cri-containerd-{id}.scope/{file}"))?;
    Ok(format!("pod {}, container {}", own.trim(), container.trim()))
}

fn resources(name: &str, resources: &Value) -> Value {
    with_container(pod(name, "sleep forever"), json!({"resources": resources}))
}

/// The cgroups of a pod before and after a resize of its limits, and whether its container was restarted.
pub(crate) fn resize(agent: Agent) -> Result<String> {
    join(agent, json!({}))?;
    create(resources(
        "resized",
        &json!({"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}),
    ))?;
    let before = wait_running("resized")?;
    let mut text = String::new();
    writeln!(text, "before: cpu.max {}", cgroup_values(&before, "cpu.max")?)?;
    writeln!(text, "before: memory.max {}", cgroup_values(&before, "memory.max")?)?;
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": {
        "requests": {"cpu": "150m", "memory": "48Mi"}, "limits": {"cpu": "605m", "memory": "96Mi"},
    }}]}});
    api("PATCH", &format!("{PODS}/resized/resize"), "application/strategic-merge-patch+json", &patch)?;
    let after = eventually("resize is complete", || {
        let pod = api_pod("resized")?;
        let status = node::statuses(&pod).pop().context("no status")?;
        ensure!(node::text(&status, "/resources/limits/memory") == "96Mi", "{status}");
        ensure!(node::text(&status, "/resources/requests/memory") == "48Mi", "{status}");
        let conditions = pod.pointer("/status/conditions").map(Value::to_string).unwrap_or_default();
        ensure!(!conditions.contains("PodResize"), "{conditions}");
        Ok(pod)
    })?;
    for file in ["cpu.max", "cpu.weight", "memory.max"] {
        writeln!(text, "after: {file} {}", cgroup_values(&after, file)?)?;
    }
    let same = node::statuses(&before).first().map(|status| node::text(status, "/containerID"))
        == node::statuses(&after).first().map(|status| node::text(status, "/containerID"));
    writeln!(text, "same container: {same}")?;
    delete("resized")?;
    Ok(text)
}

/// `memory.swap.max` of pods of each class, without and with swap for pods.
pub(crate) fn swap(agent: Agent) -> Result<String> {
    sh(
        "[ -e /swap ] || { dd if=/dev/zero of=/swap bs=1M count=512 2>/dev/null && chmod 0600 /swap && mkswap /swap >/dev/null; }; \
        grep -q /swap /proc/swaps || swapon /swap",
    )?;
    let mut text = String::new();
    for behavior in ["NoSwap", "LimitedSwap"] {
        join(agent, json!({"failSwapOn": false, "memorySwap": {"swapBehavior": behavior}}))?;
        let pods = [
            ("guaranteed", json!({"limits": {"cpu": "500m", "memory": "64Mi"}})),
            ("burstable", json!({"requests": {"memory": "256Mi"}})),
            ("best-effort", json!({})),
        ];
        for (name, requested) in pods {
            create(resources(name, &requested))?;
            let pod = wait_running(name)?;
            let values = cgroup_values(&pod, "memory.swap.max")?;
            writeln!(text, "{behavior}: {name}: {values}")?;
            delete(name)?;
        }
    }
    sh("swapoff -a")?;
    Ok(text)
}

/// A pod that uses up a resource of the node.
struct Hog {
    name: &'static str,
    signal: &'static str,
    /// Free bytes of the resource in the agent's statistics.
    free: &'static str,
    condition: &'static str,
    container: Value,
}

/// The threshold is this far below the free amount, and a hog uses twice as much.
const EVICTION_MARGIN: u64 = 400 * 1024 * 1024;

fn hogs() -> [Hog; 2] {
    let script = "dd if=/dev/zero of=/data/big bs=1M count=800; exec sleep 1000000";
    [
        Hog {
            name: "memory-hog",
            signal: "memory.available",
            free: "/node/memory/availableBytes",
            condition: "MemoryPressure",
            container: json!({"args": ["print", "starting", "--", "fill", "800", "--", "sleep", "forever"]}),
        },
        Hog {
            name: "disk-hog",
            signal: "nodefs.available",
            free: "/node/fs/availableBytes",
            condition: "DiskPressure",
            container: json!({
                "image": "podward.test/busybox:1", "args": null, "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }),
        },
    ]
}

/// Reason and condition of pods that use up the machine's memory and disk.
pub(crate) fn eviction(agent: Agent) -> Result<String> {
    let mut text = String::new();
    for hog in hogs() {
        // Files that were read lately count as used memory.
        sh("sync; echo 3 > /proc/sys/vm/drop_caches")?;
        join(agent, json!({}))?;
        let threshold = free_bytes(hog.free)?.saturating_sub(EVICTION_MARGIN).to_string();
        join(
            agent,
            json!({"evictionHard": {hog.signal: threshold}, "evictionPressureTransitionPeriod": "1s"}),
        )?;
        wait_condition(hog.condition, "False")?;
        let manifest =
            merged(pod(hog.name, ""), json!({"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}));
        create(with_container(manifest, hog.container))?;
        let reason = eventually(&format!("{} is evicted", hog.name), || {
            let pod = api_pod(hog.name)?;
            let reason = node::text(&pod, "/status/reason");
            if reason.is_empty() {
                bail!("{:?}", pod.get("status"));
            }
            let message = node::text(&pod, "/status/message");
            let message = message.split_once(". ").map_or(message.as_str(), |(first, _)| first);
            Ok(format!("{reason}: {message}"))
        })?;
        writeln!(text, "{}: {reason}", hog.name)?;
        delete(hog.name)?;
        wait_condition(hog.condition, "False")?;
    }
    // An agent under disk pressure removes unused images, too.
    agents::import_images()?;
    Ok(text)
}

fn free_bytes(pointer: &str) -> Result<u64> {
    eventually("node has statistics", || {
        let summary: Value = serde_json::from_str(&node::get("/stats/summary")?)?;
        summary.pointer(pointer).and_then(Value::as_u64).context("no free bytes")
    })
}

fn wait_condition(condition: &str, expected: &str) -> Result<()> {
    eventually(&format!("{condition} is {expected}"), || {
        let state = node_condition(condition)?;
        ensure!(state == expected, "{condition} is {state}");
        Ok(())
    })
}
