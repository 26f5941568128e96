use decide::pipeline::pod_actions::SandboxPlan;
use decide::runtime_spec::dns::{WarningSubject, parse_resolv_conf, pod_dns, resolv_conf_problem};
use decide::runtime_spec::pod_paths::log_folder;
use decide::runtime_spec::sandbox_spec::{SandboxInputs, sandbox_spec};
use decide::runtime_spec::user_namespaces::check_handler;
use model::{
    DnsConfig, EventSubject, EventType, SandboxId, SandboxSpec, SandboxStatus, StartStep, SyncFailure,
    UserNamespace,
};
use ports::runtime::RuntimeErrorKind;
use tokio::time::Instant;

use super::sync::{PodSync, ReadySandbox, StartInputs};
use super::{PodRuntime, runtime_failed, sync_failed};

impl PodRuntime {
    /// Records a warning for a resolv.conf that exceeds the limits of pods. Called once, at the start.
    pub fn check_resolv_conf(&self) {
        let settings = &self.deps.settings;
        let path = &settings.resolv_conf;
        if path.is_empty() {
            return;
        }
        let problem = match self.deps.host.resolv_conf(path) {
            Err(error) => Some(format!("open {path}: {error}")),
            Ok(text) => match parse_resolv_conf(&text) {
                Err(error) => Some(error),
                Ok(host) => resolv_conf_problem(path, &host, &settings.cluster_domain),
            },
        };
        if let Some(problem) = problem {
            self.warn_node("CheckLimitsForResolvConf", &problem);
        }
    }

    fn warn_node(&self, reason: &str, message: &str) {
        let subject = EventSubject::Node(self.deps.settings.name.clone());
        self.record(subject, EventType::Warning, reason, message);
    }
}

impl PodSync<'_> {
    /// The spec of the planned sandbox, whether it exists or not.
    pub(super) async fn planned_sandbox(&self, plan: &SandboxPlan) -> Result<SandboxSpec, SyncFailure> {
        let attempt = match plan {
            SandboxPlan::None => {
                return Err(sync_failed("containers must start but no sandbox is planned".to_owned()));
            }
            SandboxPlan::Keep(id) => self.observed_sandbox(id).map_or(0, |sandbox| sandbox.attempt),
            SandboxPlan::Create { attempt, .. } => *attempt,
        };
        self.wait_for_runtime_classes().await;
        self.sandbox_spec(attempt).await
    }

    /// The planned sandbox: the existing one, or a new one; `None` if the pod's claims cannot be prepared. A pod that must stop does not wait for a start permit.
    pub(super) async fn sandbox(
        &self,
        start: &StartInputs<'_>,
        spec: &SandboxSpec,
    ) -> Result<Option<ReadySandbox>, SyncFailure> {
        if let SandboxPlan::Keep(id) = start.sandbox {
            let ips = self.observed_sandbox(id).and_then(|sandbox| sandbox.ips.clone()).unwrap_or_default();
            return Ok(Some(ReadySandbox { id: id.clone(), ips, spec: spec.clone() }));
        }
        let permit = start.interrupt.run_until_cancelled(start.permit.acquire()).await;
        permit.ok_or(SyncFailure::Interrupted)?;
        // A pod that must stop does not wait for drivers.
        let prepared = start.interrupt.run_until_cancelled(self.prepare_claims()).await;
        if !prepared.ok_or(SyncFailure::Interrupted)? {
            return Ok(None);
        }
        let timelines = &self.deps.timelines;
        let step = timelines.begin_step(&self.pod.uid, StartStep::Sandbox, None);
        let created = self.create_sandbox(spec).await;
        step.finished(&created);
        created.map(Some)
    }

    fn observed_sandbox(&self, id: &SandboxId) -> Option<&SandboxStatus> {
        self.observed.sandboxes.iter().find(|sandbox| sandbox.id == *id)
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<ReadySandbox, SyncFailure> {
        for container in self.pod.containers() {
            let made = self.deps.logs.make_log_folder(&log_folder(self.pod), &container.container.name).await;
            made.map_err(|error| sync_failed(error.text()))?;
        }
        let started = Instant::now();
        let created = self.deps.runtime.run_sandbox(spec).await;
        self.count_sandbox(spec, started.elapsed(), created.is_err());
        let id = match created {
            Ok(id) => id,
            Err(error) if error.kind == RuntimeErrorKind::Busy => {
                return Err(runtime_failed("create the pod's sandbox", &error));
            }
            Err(error) => {
                self.warn_not_created(&error.grpc_text());
                return Err(runtime_failed("create the pod's sandbox", &error));
            }
        };
        let ips = if self.pod.is_host_network() {
            Vec::new()
        } else {
            let status = self.deps.runtime.sandbox_status(&id).await.map_err(|error| {
                let message = format!("Unable to get pod sandbox status: {}", error.grpc_text());
                self.warn("FailedPodSandBoxStatus", &message);
                runtime_failed("read the new sandbox's status", &error)
            })?;
            status.ips.unwrap_or_default()
        };
        Ok(ReadySandbox { id, ips, spec: spec.clone() })
    }

    async fn sandbox_spec(&self, attempt: u32) -> Result<SandboxSpec, SyncFailure> {
        let dns = self.dns()?;
        self.sandbox_spec_with(attempt, dns).await.map_err(|message| {
            self.warn_not_created(&message);
            sync_failed(message)
        })
    }

    fn warn_not_created(&self, cause: &str) {
        self.warn("FailedCreatePodSandBox", &format!("Failed to create pod sandbox: {cause}"));
    }

    async fn sandbox_spec_with(&self, attempt: u32, dns: Option<DnsConfig>) -> Result<SandboxSpec, String> {
        let handlers = &self.deps.health.now().features.handlers;
        let runtime_handler = self.handler(handlers)?;
        let user_namespace = if self.pod.spec.host_users == Some(false) {
            check_handler(handlers, &runtime_handler)?;
            let range =
                self.deps.user_namespaces.range(&self.pod.uid).await.map_err(|error| error.to_string())?;
            UserNamespace::Pod(range)
        } else {
            UserNamespace::Node
        };
        sandbox_spec(&SandboxInputs {
            pod: self.pod,
            attempt,
            settings: &self.deps.settings,
            dns,
            runtime_handler,
            user_namespace,
            volume_groups: &self.volume_groups(),
        })
    }

    fn dns(&self) -> Result<Option<DnsConfig>, SyncFailure> {
        let path = &self.deps.settings.resolv_conf;
        let host = if path.is_empty() {
            DnsConfig::default()
        } else {
            let text = self.deps.host.resolv_conf(path).map_err(|error| error.to_string());
            let parsed = text.and_then(|text| parse_resolv_conf(&text));
            parsed.map_err(|error| sync_failed(format!("read resolvConf {path}: {error}")))?
        };
        let (dns, warnings) = pod_dns(self.pod, &self.deps.settings, &host);
        for warning in warnings {
            match warning.subject {
                WarningSubject::Pod => self.warn(warning.reason, &warning.message),
                WarningSubject::Node => self.runtime.warn_node(warning.reason, &warning.message),
            }
        }
        Ok(dns)
    }
}
