//! Two machines, and the steps that make a cluster of them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Agent, condition};
use serde_json::{Value, json};
use testkit::host_state::KernelSettings;
use testkit::machine::{CONTROL_PLANE_COMPONENTS, Machine};
use testkit::poll::within;

use crate::configuration;

/// Long enough for a loaded machine; a step that exceeds it is broken. kubeadm waits as long for a restarted component.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(900);

#[derive(Debug)]
pub(crate) struct Cluster {
    /// Runs the control plane.
    pub(crate) first: Machine,
    pub(crate) second: Machine,
    // Last: restored when no agent runs any more.
    _settings: KernelSettings,
}

impl Cluster {
    pub(crate) async fn boot(agent: Agent) -> Result<Self> {
        let settings = KernelSettings::save()?;
        let first = Machine::boot("machine-1", "10.89.0.1", agent).await?;
        let second = Machine::boot("machine-2", "10.89.0.2", agent).await?;
        first.connect(&second).await?;
        Ok(Self { first, second, _settings: settings })
    }

    pub(crate) fn instances(&self) -> Vec<String> {
        [&self.first, &self.second].map(|machine| machine.id().to_owned()).to_vec()
    }

    /// `kubeadm init`, until the node object exists and every component has a mirror pod that is ready.
    pub(crate) async fn init(&self) -> Result<()> {
        const FILE: &str = "/run/init.yaml";
        self.first.write_file(FILE, &configuration::init(&self.first))?;
        let images = self.first.run("kubeadm", &["config", "images", "list", "--config", FILE]).await?;
        self.first.import_control_plane(&images).await?;
        for machine in [&self.first, &self.second] {
            machine.tag_pause_image(&images).await?;
        }
        self.first.run("kubeadm", &["init", "--config", FILE]).await?;
        for component in CONTROL_PLANE_COMPONENTS {
            self.wait_static_pod(component, |_| Ok(())).await?;
        }
        Ok(())
    }

    /// `kubeadm join` of the second machine with the token and the hash of the CA's certificate.
    pub(crate) async fn join(&self) -> Result<()> {
        const FILE: &str = "/run/join.yaml";
        let command = self.first.run("kubeadm", &["token", "create", "--print-join-command"]).await?;
        let hash = command.split_whitespace().find(|word| word.starts_with("sha256:"));
        let hash = hash.with_context(|| format!("no hash in {command}"))?;
        let configuration = configuration::join(&self.second, self.first.address(), hash);
        self.second.write_file(FILE, &configuration)?;
        self.second.run("kubeadm", &["join", "--config", FILE]).await.map(drop)
    }

    /// The steps after `init` and `join`: approves the serving certificate and sets up the pod network.
    pub(crate) async fn complete_node(&self, machine: &Machine) -> Result<()> {
        // `kubeadm join` ends when the agent has its certificate, maybe before it has registered the node.
        let node =
            within("node is registered", TIMEOUT, async || self.first.get(&["node", machine.name()]).await)
                .await?;
        ensure!(condition(&node, "Ready") != "True", "{} is ready without a pod network", machine.name());
        self.approve_serving_certificate(machine).await?;
        self.add_network(machine).await?;
        within("node is ready", TIMEOUT, async || {
            let node = self.first.get(&["node", machine.name()]).await?;
            ensure!(condition(&node, "Ready") == "True", "{}", node["status"]["conditions"]);
            Ok(())
        })
        .await
    }

    /// Waits until a component's mirror pod is ready and `check` accepts it.
    pub(crate) async fn wait_static_pod(
        &self,
        component: &str,
        check: impl Fn(&Value) -> Result<()>,
    ) -> Result<Value> {
        let name = format!("{component}-{}", self.first.name());
        within(&format!("{name} is ready"), TIMEOUT, async || {
            let pod = self.first.get(&["pod", "--namespace", "kube-system", &name]).await?;
            check(&pod)?;
            ensure!(condition(&pod, "Ready") == "True", "{}", pod["status"]);
            Ok(pod)
        })
        .await
    }

    /// Approves every request of the node: each start of the agent makes one while there is no certificate.
    async fn approve_serving_certificate(&self, machine: &Machine) -> Result<()> {
        let user = format!("system:node:{}", machine.name());
        within("approved serving certificate in use", TIMEOUT, async || {
            let list = self.first.get(&["certificatesigningrequests"]).await?;
            let requests = list["items"].as_array().into_iter().flatten();
            let own = requests.filter(|request| {
                request["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
                    && request["spec"]["username"] == user.as_str()
            });
            for request in own.filter(|request| request["status"]["conditions"].is_null()) {
                let name = request["metadata"]["name"].as_str().context("a request without name")?;
                self.first.kubectl(&["certificate", "approve", name]).await?;
            }
            self.check_serving_certificate(machine).await
        })
        .await
    }

    /// Asks the agent through the API server, which verifies its certificate.
    pub(crate) async fn check_serving_certificate(&self, machine: &Machine) -> Result<()> {
        let path = format!("/api/v1/nodes/{}/proxy/healthz", machine.name());
        let answer = self.first.kubectl(&["get", "--raw", &path]).await?;
        ensure!(answer == "ok", "/healthz answers {answer}");
        Ok(())
    }

    /// Does what a network add-on does: a bridge with the node's pod network, and a route to the other machine's.
    async fn add_network(&self, machine: &Machine) -> Result<()> {
        let range = within("pod network of the node", TIMEOUT, async || {
            let node = self.first.get(&["node", machine.name()]).await?;
            node["spec"]["podCIDR"].as_str().map(str::to_owned).context("no podCIDR")
        })
        .await?;
        let network = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
                    "ipam": {"type": "host-local", "ranges": [[{"subnet": &range}]], "routes": [{"dst": "0.0.0.0/0"}]},
                },
                {"type": "portmap", "capabilities": {"portMappings": true}},
            ],
        });
        let other = if machine.name() == self.first.name() { &self.second } else { &self.first };
        other.run("ip", &["route", "add", &range, "via", machine.address()]).await?;
        machine.write_file("/etc/cni/net.d/10-pods.conflist", &network.to_string())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for machine in [&self.first, &self.second] {
            println!("--- log of the agent on {} ends with\n{}", machine.name(), machine.log("kubelet", 60));
        }
    }
}
