use std::time::Duration;

use decide::hooks::{Hook, exec_error, invalid_handler, resolve_port};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};
use model::{ContainerId, EventType, Pod};
use ports::outbound::{HttpGet, OutboundError, Purpose, Scheme};

use super::PodRuntime;

/// The container a hook is run for.
#[derive(Clone, Copy)]
pub(super) struct HookSubject<'a> {
    /// Its pod; a pod that only the runtime knows has none.
    pub(super) pod: Option<&'a Pod>,
    pub(super) container: &'a Container,
    pub(super) id: &'a ContainerId,
    /// Addresses of the pod.
    pub(super) ips: &'a [String],
}

impl PodRuntime {
    /// Runs a hook to its end. Nothing limits it here: a hook after a start may take as long as it likes, one before
    /// a stop is limited by the grace of its container.
    ///
    /// # Errors
    /// What users are told when it failed.
    pub(super) async fn run_hook(
        &self,
        subject: HookSubject<'_>,
        handler: &LifecycleHandler,
    ) -> Result<(), String> {
        let hook = Hook::of(handler);
        let (error, output) = match hook {
            Hook::Exec(command) => match self.parts.runtime.exec(subject.id, command, Duration::ZERO).await {
                Ok(output) => match exec_error(command, &output) {
                    None => return Ok(()),
                    Some(error) => (error, [output.stdout, output.stderr].concat()),
                },
                Err(error) => (error.grpc_text(), Vec::new()),
            },
            Hook::Http(get) => match self.http_hook(subject, get).await {
                Ok(()) => return Ok(()),
                Err(error) => (error, Vec::new()),
            },
            Hook::Sleep(time) => {
                tokio::time::sleep(time).await;
                return Ok(());
            }
            Hook::Invalid(handler) => (invalid_handler(handler), Vec::new()),
        };
        Err(match subject.pod {
            Some(pod) => hook.failure(pod, &subject.container.name, &error, &output),
            None => error,
        })
    }

    /// Any answer will do. A server that does not speak TLS is asked again without it.
    async fn http_hook(&self, subject: HookSubject<'_>, get: &HTTPGetAction) -> Result<(), String> {
        let asked = get.host.clone().filter(|host| !host.is_empty());
        let host = asked.or_else(|| self.address(subject)).ok_or("failed to find networking container")?;
        let https = get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
        let headers = get.http_headers.iter().flatten();
        let request = HttpGet {
            scheme: if https { Scheme::Https } else { Scheme::Http },
            host,
            port: resolve_port(&get.port, subject.container)?,
            path: get.path.clone().unwrap_or_default(),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
            purpose: Purpose::Hook,
            limit: None,
        };
        match self.parts.outbound.http_get(&request).await {
            // What is read of the body is thrown away, so a broken one does not matter.
            Ok(_) | Err(OutboundError::Body(_)) => Ok(()),
            Err(OutboundError::PlainAnswer(error)) => {
                self.http_fallback(subject, request).await.map_err(|()| error)
            }
            Err(OutboundError::Failed(error) | OutboundError::Request(error)) => Err(error),
        }
    }

    async fn http_fallback(&self, subject: HookSubject<'_>, mut request: HttpGet) -> Result<(), ()> {
        request.scheme = Scheme::Http;
        // What was meant for an encrypted connection is not sent in plain text.
        request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        match self.parts.outbound.http_get(&request).await {
            Ok(_) | Err(OutboundError::Body(_)) => {}
            Err(_) => return Err(()),
        }
        self.parts.metrics.pods.hook_fallbacks.inc();
        if let Some(pod) = subject.pod {
            let host = if request.host.contains(':') { format!("[{}]", request.host) } else { request.host };
            let message = format!(
                "request to HTTPS lifecycle hook {host}:{} got HTTP response, retry with HTTP succeeded",
                request.port
            );
            self.event(pod, None, EventType::Warning, "LifecycleHTTPFallback", message);
        }
        Ok(())
    }

    /// The pod's address; the node's for a pod in its network.
    fn address(&self, subject: HookSubject<'_>) -> Option<String> {
        let of_node = || {
            let in_host_network = subject.pod.is_some_and(Pod::is_host_network);
            let shown = self.shown_host_ips();
            let first = shown.first().or(self.parts.settings.addresses.first());
            first.filter(|_| in_host_network).map(ToString::to_string)
        };
        subject.ips.first().cloned().or_else(of_node)
    }
}
