use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::pipeline::hooks::resolve_port;
use crate::runtime_spec::environment::expand;

/// One check of a probe, with port and host resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeCheck {
    Exec {
        /// With `$(NAME)` references replaced by literal values of the container's environment.
        command: Vec<String>,
    },
    Http {
        tls: bool,
        host: String,
        port: u16,
        /// Path and query as in the spec.
        path: String,
        headers: Vec<(String, String)>,
    },
    Tcp {
        host: String,
        port: u16,
    },
    /// Calls the gRPC health service.
    Grpc {
        host: String,
        port: u16,
        /// Empty for the whole server.
        service: String,
    },
}

/// Why a check cannot be made, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError(pub String);

/// Builds the check of a probe for a container of a pod with this IP.
///
/// # Errors
/// When a port is invalid or unknown, or the probe has no handler.
pub fn build_check(probe: &Probe, container: &Container, pod_ip: &str) -> Result<ProbeCheck, CheckError> {
    let host_or_pod_ip = |host: Option<&String>| {
        host.filter(|host| !host.is_empty()).map_or(pod_ip, String::as_str).to_owned()
    };
    if let Some(exec) = &probe.exec {
        let command =
            exec.command.iter().flatten().map(|argument| expand(argument, |name| literal(container, name)));
        Ok(ProbeCheck::Exec { command: command.collect() })
    } else if let Some(get) = &probe.http_get {
        let headers = get.http_headers.iter().flatten();
        Ok(ProbeCheck::Http {
            tls: get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: host_or_pod_ip(get.host.as_ref()),
            port: numeric_port(&get.port, container)?,
            path: get.path.clone().unwrap_or_default(),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        })
    } else if let Some(tcp) = &probe.tcp_socket {
        Ok(ProbeCheck::Tcp {
            host: host_or_pod_ip(tcp.host.as_ref()),
            port: numeric_port(&tcp.port, container)?,
        })
    } else if let Some(grpc) = &probe.grpc {
        let port = numeric_port(&IntOrString::Int(grpc.port), container)?;
        let service = grpc.service.clone().unwrap_or_default();
        Ok(ProbeCheck::Grpc { host: pod_ip.to_owned(), port, service })
    } else {
        Err(CheckError(format!("missing probe handler for container {}", container.name)))
    }
}

/// The value of an environment variable in the spec. A variable with `valueFrom` counts as empty, because the check does not
/// see the environment that the container was started with.
fn literal(container: &Container, name: &str) -> Option<String> {
    let named = container.env.iter().flatten().rev().find(|variable| variable.name == name)?;
    Some(named.value.clone().unwrap_or_default())
}

fn numeric_port(port: &IntOrString, container: &Container) -> Result<u16, CheckError> {
    resolve_port(port, container).map_err(CheckError)
}
