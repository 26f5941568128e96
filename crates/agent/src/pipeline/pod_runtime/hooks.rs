use std::time::Duration;

use decide::pipeline::hooks::{Hook, exec_error, invalid_handler, resolve_port};
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler};
use model::{ContainerId, Pod};
use ports::outbound::{HttpGet, OutboundError, Purpose, Scheme};

use super::PodRuntime;

/// The container of a lifecycle hook.
#[derive(Clone, Copy)]
pub(super) struct HookSubject<'a> {
    /// `None` for a container of an orphan.
    pub(super) pod: Option<&'a Pod>,
    pub(super) container: &'a Container,
    pub(super) id: &'a ContainerId,
    pub(super) ips: &'a [String],
}

impl PodRuntime {
    /// Runs a hook to its end. The caller limits its time: `postStart` has no timeout, `preStop` has the grace period of the
    /// container.
    ///
    /// # Errors
    /// A message for the user.
    pub(super) async fn run_hook(
        &self,
        subject: HookSubject<'_>,
        handler: &LifecycleHandler,
    ) -> Result<(), String> {
        let hook = Hook::of(handler);
        let (error, output) = match hook {
            Hook::Exec(command) => match self.deps.runtime.exec(subject.id, command, Duration::ZERO).await {
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
            Some(pod) => hook.failure_message(pod, &subject.container.name, &error, &output),
            None => error,
        })
    }

    /// Any HTTP response is a success. An HTTPS request that gets a plain HTTP response is retried over HTTP.
    async fn http_hook(&self, subject: HookSubject<'_>, get: &HTTPGetAction) -> Result<(), String> {
        let requested = get.host.clone().filter(|host| !host.is_empty());
        let host =
            requested.or_else(|| self.address(subject)).ok_or("failed to find networking container")?;
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
        match self.deps.outbound.http_get(&request).await {
            // The body is discarded, so an incomplete one does not matter.
            Ok(_) | Err(OutboundError::Body(_)) => Ok(()),
            Err(OutboundError::PlainAnswer(error)) => {
                self.http_fallback(subject, request).await.map_err(|()| error)
            }
            Err(OutboundError::Failed(error) | OutboundError::Request(error)) => Err(error),
        }
    }

    async fn http_fallback(&self, subject: HookSubject<'_>, mut request: HttpGet) -> Result<(), ()> {
        request.scheme = Scheme::Http;
        // Credentials are not sent over an unencrypted connection.
        request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        match self.deps.outbound.http_get(&request).await {
            Ok(_) | Err(OutboundError::Body(_)) => {}
            Err(_) => return Err(()),
        }
        self.deps.metrics.pods.hook_fallbacks.inc();
        if let Some(pod) = subject.pod {
            let host = if request.host.contains(':') { format!("[{}]", request.host) } else { request.host };
            let message = format!(
                "request to HTTPS lifecycle hook {host}:{} got HTTP response, retry with HTTP succeeded",
                request.port
            );
            self.warn(pod, "LifecycleHTTPFallback", &message);
        }
        Ok(())
    }

    /// The pod's address; the node's address for a pod in the host network.
    fn address(&self, subject: HookSubject<'_>) -> Option<String> {
        let node_address = || {
            let in_host_network = subject.pod.is_some_and(Pod::is_host_network);
            let reported = self.api_host_ips();
            let first = reported.first().or(self.deps.settings.addresses.first());
            first.filter(|_| in_host_network).map(ToString::to_string)
        };
        subject.ips.first().cloned().or_else(node_address)
    }
}
