use decide::dns::{About, HostResolver, parse_resolv_conf, pod_dns, resolv_conf_problem};
use decide::pod_actions::SandboxPlan;
use decide::pod_paths::log_folder;
use decide::sandbox_spec::{SandboxInputs, sandbox_spec};
use decide::user_namespaces::check_handler;
use model::{
    DnsConfig, EventSubject, EventType, RecordedEvent, SandboxId, SandboxSpec, SandboxStatus, StartStep,
    SyncFailure, UserNamespace,
};
use ports::runtime::RuntimeErrorKind;
use tokio::time::Instant;

use super::sync::{Pass, ReadySandbox, Start};
use super::{PodRuntime, failed, plain};

impl PodRuntime {
    /// Tells of a resolv.conf that pods cannot get as it is; once, as the limits are the node's.
    pub fn check_resolv_conf(&self) {
        let settings = &self.parts.settings;
        let path = &settings.resolv_conf;
        if path.is_empty() {
            return;
        }
        let problem = match self.parts.host.resolv_conf(path) {
            Err(error) => Some(format!("open {path}: {error}")),
            Ok(text) => match parse_resolv_conf(&text) {
                Err(error) => Some(error),
                Ok(host) => resolv_conf_problem(path, &host, &settings.cluster_domain),
            },
        };
        if let Some(problem) = problem {
            self.node_warning("CheckLimitsForResolvConf", problem);
        }
    }

    fn node_warning(&self, reason: &str, message: String) {
        self.parts.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::Node(self.parts.settings.name.clone()),
            kind: EventType::Warning,
            reason: reason.to_owned(),
            message,
            at: self.parts.clock.now(),
        });
    }
}

impl Pass<'_> {
    /// What the sandbox of the plan is, whether it is there or not.
    pub(super) async fn planned_sandbox(&self, plan: &SandboxPlan) -> Result<SandboxSpec, SyncFailure> {
        let attempt = match plan {
            SandboxPlan::None => {
                return Err(plain("the pod needs no sandbox but containers to start".to_owned()));
            }
            SandboxPlan::Keep(id) => self.kept(id).map_or(0, |sandbox| sandbox.attempt),
            SandboxPlan::Create { attempt, .. } => *attempt,
        };
        self.wait_for_runtime_classes().await;
        self.sandbox_spec(attempt).await
    }

    /// The sandbox of the plan: the one that is there, or a new one. A pod that must stop does not wait for its turn.
    pub(super) async fn sandbox(
        &self,
        start: &Start<'_>,
        spec: &SandboxSpec,
    ) -> Result<ReadySandbox, SyncFailure> {
        if let SandboxPlan::Keep(id) = start.sandbox {
            let ips = self.kept(id).and_then(|sandbox| sandbox.ips.clone()).unwrap_or_default();
            return Ok(ReadySandbox { id: id.clone(), ips, spec: spec.clone() });
        }
        tokio::select! {
            () = start.ticket.wait() => {}
            () = start.interruption.requested() => return Err(SyncFailure::Interrupted),
        }
        let timelines = &self.runtime.parts.timelines;
        let step = timelines.begin(&self.pod.uid, StartStep::Sandbox, None);
        let created = self.create_sandbox(spec).await;
        step.ended(&created);
        created
    }

    fn kept(&self, id: &SandboxId) -> Option<&SandboxStatus> {
        self.observed.sandboxes.iter().find(|sandbox| sandbox.id == *id)
    }

    async fn create_sandbox(&self, spec: &SandboxSpec) -> Result<ReadySandbox, SyncFailure> {
        let parts = &self.runtime.parts;
        for container in self.pod.containers() {
            parts
                .logs
                .make_log_folder(&log_folder(self.pod), &container.container.name)
                .await
                .map_err(|error| plain(format!("{error}: {}", error.source)))?;
        }
        let begun = Instant::now();
        let made = parts.runtime.run_sandbox(spec).await;
        self.count_sandbox(spec, begun.elapsed(), made.is_err());
        let id = match made {
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
                    format!("Failed to create pod sandbox: {}", error.grpc_text()),
                );
                return Err(failed("create the pod's sandbox", &error));
            }
        };
        let ips = if self.pod.is_host_network() {
            Vec::new()
        } else {
            let status = parts.runtime.sandbox_status(&id).await.map_err(|error| {
                let message = format!("Unable to get pod sandbox status: {}", error.grpc_text());
                self.runtime.event(self.pod, None, EventType::Warning, "FailedPodSandBoxStatus", message);
                failed("read the new sandbox's status", &error)
            })?;
            status.ips.unwrap_or_default()
        };
        Ok(ReadySandbox { id, ips, spec: spec.clone() })
    }

    async fn sandbox_spec(&self, attempt: u32) -> Result<SandboxSpec, SyncFailure> {
        let dns = self.dns()?;
        self.sandbox_spec_with(attempt, dns).await.map_err(|message| {
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

    async fn sandbox_spec_with(&self, attempt: u32, dns: Option<DnsConfig>) -> Result<SandboxSpec, String> {
        let parts = &self.runtime.parts;
        let handlers = &parts.health.now().abilities.handlers;
        let runtime_handler = self.handler(handlers)?;
        let user_namespace = if self.pod.spec.host_users == Some(false) {
            check_handler(handlers, &runtime_handler)?;
            let range =
                parts.user_namespaces.range(&self.pod.uid).await.map_err(|error| error.to_string())?;
            UserNamespace::Pod(range)
        } else {
            UserNamespace::Node
        };
        sandbox_spec(&SandboxInputs {
            pod: self.pod,
            attempt,
            settings: &parts.settings,
            dns,
            runtime_handler,
            user_namespace,
            volume_groups: &self.volume_groups(),
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
            match warning.about {
                About::Pod => {
                    self.runtime.event(self.pod, None, EventType::Warning, warning.reason, warning.message);
                }
                About::Node => self.runtime.node_warning(warning.reason, warning.message),
            }
        }
        Ok(dns)
    }
}
