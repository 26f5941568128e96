use decide::dns::{HostResolver, parse_resolv_conf, pod_dns};
use decide::pod_actions::SandboxPlan;
use decide::pod_paths::log_folder;
use decide::sandbox_spec::{SandboxInputs, sandbox_spec};
use model::{DnsConfig, EventType, SandboxSpec, SyncFailure};
use ports::runtime::RuntimeErrorKind;

use super::sync::{Pass, ReadySandbox};
use super::{failed, plain};

impl Pass<'_> {
    /// The sandbox of the plan: the one that is there, or a new one.
    pub(super) async fn sandbox(&self, plan: &SandboxPlan) -> Result<ReadySandbox, SyncFailure> {
        match plan {
            SandboxPlan::None => Err(plain("the pod needs no sandbox but containers to start".to_owned())),
            SandboxPlan::Keep(id) => {
                let kept = self.observed.sandboxes.iter().find(|sandbox| sandbox.id == *id);
                let attempt = kept.map_or(0, |sandbox| sandbox.attempt);
                let spec = self.sandbox_spec(attempt)?;
                let ips = kept.map(|sandbox| sandbox.ips.clone()).unwrap_or_default();
                Ok(ReadySandbox { id: id.clone(), ips, spec })
            }
            SandboxPlan::Create { attempt, .. } => self.create_sandbox(*attempt).await,
        }
    }

    async fn create_sandbox(&self, attempt: u32) -> Result<ReadySandbox, SyncFailure> {
        let parts = &self.runtime.parts;
        let spec = self.sandbox_spec(attempt)?;
        for container in self.pod.containers() {
            parts
                .logs
                .make_log_folder(&log_folder(self.pod), &container.container.name)
                .await
                .map_err(|error| plain(format!("{error}: {}", error.source)))?;
        }
        let id = match parts.runtime.run_sandbox(&spec).await {
            Ok(id) => id,
            Err(error) if error.kind == RuntimeErrorKind::Busy => {
                return Err(failed("create the pod's sandbox", &error));
            }
            Err(error) => {
                self.runtime.event(
                    self.pod,
                    None,
                    EventType::Warning,
                    "FailedCreatePodSandBox",
                    format!("Failed to create pod sandbox: {}", error.message),
                );
                return Err(failed("create the pod's sandbox", &error));
            }
        };
        let ips = if self.pod.is_host_network() {
            Vec::new()
        } else {
            let status = parts.runtime.sandbox_status(&id).await;
            status.map_err(|error| failed("read the new sandbox's status", &error))?.ips
        };
        Ok(ReadySandbox { id, ips, spec })
    }

    fn sandbox_spec(&self, attempt: u32) -> Result<SandboxSpec, SyncFailure> {
        let inputs = SandboxInputs {
            pod: self.pod,
            attempt,
            settings: &self.runtime.parts.settings,
            dns: self.dns()?,
            runtime_handler: String::new(),
        };
        sandbox_spec(&inputs).map_err(|message| {
            self.runtime.event(
                self.pod,
                None,
                EventType::Warning,
                "FailedCreatePodSandBox",
                format!("Failed to create pod sandbox: {message}"),
            );
            plain(message)
        })
    }

    fn dns(&self) -> Result<Option<DnsConfig>, SyncFailure> {
        let parts = &self.runtime.parts;
        let path = &parts.settings.resolv_conf;
        let host = if path.is_empty() {
            HostResolver { servers: Vec::new(), searches: Vec::new(), options: Vec::new() }
        } else {
            let text = parts
                .host
                .resolv_conf(path)
                .map_err(|error| plain(format!("read resolvConf {path}: {error}")))?;
            parse_resolv_conf(&text).map_err(|error| plain(format!("read resolvConf {path}: {error}")))?
        };
        let (dns, warnings) = pod_dns(self.pod, &parts.settings, &host);
        for warning in warnings {
            self.runtime.event(self.pod, None, EventType::Warning, warning.reason, warning.message);
        }
        Ok(dns)
    }
}
