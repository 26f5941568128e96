use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::environment::expand;
use crate::hooks::resolve_port;

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeCheck {
    /// Runs a command in the container.
    Exec {
        /// Expanded by the literal values of the container's environment.
        command: Vec<String>,
    },
    /// Gets a page.
    Http {
        /// Whether over TLS.
        tls: bool,
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// Path and query as in the spec.
        path: String,
        /// Headers as in the spec.
        headers: Vec<(String, String)>,
    },
    /// Opens a connection.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Asks a gRPC server for its health.
    Grpc {
        /// Address.
        host: String,
        /// Port.
        port: u16,
        /// Service, empty for the whole server.
        service: String,
    },
}

/// A probe that cannot be made, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckError(pub String);

/// What a probe of a container asks in a pod with this address.
///
/// # Errors
/// When a port is no port, or the probe asks nothing.
pub fn check(probe: &Probe, container: &Container, pod_ip: &str) -> Result<ProbeCheck, CheckError> {
    let own = |host: Option<&String>| {
        host.filter(|host| !host.is_empty()).map_or(pod_ip, String::as_str).to_owned()
    };
    if let Some(exec) = &probe.exec {
        let command = exec.command.iter().flatten().map(|word| expand(word, |name| literal(container, name)));
        Ok(ProbeCheck::Exec { command: command.collect() })
    } else if let Some(get) = &probe.http_get {
        let headers = get.http_headers.iter().flatten();
        Ok(ProbeCheck::Http {
            tls: get.scheme.as_deref().is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
            host: own(get.host.as_ref()),
            port: port(&get.port, container)?,
            path: get.path.clone().unwrap_or_default(),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        })
    } else if let Some(tcp) = &probe.tcp_socket {
        Ok(ProbeCheck::Tcp { host: own(tcp.host.as_ref()), port: port(&tcp.port, container)? })
    } else if let Some(grpc) = &probe.grpc {
        let port = port(&IntOrString::Int(grpc.port), container)?;
        let service = grpc.service.clone().unwrap_or_default();
        Ok(ProbeCheck::Grpc { host: pod_ip.to_owned(), port, service })
    } else {
        Err(CheckError(format!("missing probe handler for container {}", container.name)))
    }
}

/// Only literal values count, and a variable that is taken from elsewhere counts as empty: a probe sees nothing of
/// what the container was started with.
fn literal(container: &Container, name: &str) -> Option<String> {
    let named = container.env.iter().flatten().rev().find(|variable| variable.name == name)?;
    Some(named.value.clone().unwrap_or_default())
}

fn port(wanted: &IntOrString, container: &Container) -> Result<u16, CheckError> {
    resolve_port(wanted, container).map_err(CheckError)
}
