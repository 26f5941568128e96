//! Environment variables for the services of the cluster.

use std::collections::BTreeMap;

use model::{Pod, Service};

/// The API server, which is included even without `enableServiceLinks`.
const API_SERVER_SERVICE: (&str, &str) = ("default", "kubernetes");

/// Variables for the services of the pod's namespace, unless `enableServiceLinks` is false, and always for the API server.
pub fn service_environment<'a>(
    pod: &Pod,
    services: impl IntoIterator<Item = &'a Service>,
) -> Vec<(String, String)> {
    let wants_links = pod.spec.enable_service_links.unwrap_or(true);
    let mut by_name: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        if !has_address(service) {
            continue;
        }
        if service.namespace == pod.namespace() && wants_links {
            by_name.insert(&service.name, service);
        } else if (service.namespace.as_str(), service.name.as_str()) == API_SERVER_SERVICE {
            // A service of the same name in the pod's namespace takes precedence.
            by_name.entry(&service.name).or_insert(service);
        }
    }
    let mut variables = BTreeMap::new();
    for service in by_name.values() {
        add_service(&mut variables, service);
    }
    variables.into_iter().collect()
}

fn has_address(service: &Service) -> bool {
    !service.cluster_ip.is_empty() && service.cluster_ip != "None"
}

fn add_service(variables: &mut BTreeMap<String, String>, service: &Service) {
    let Some(first) = service.ports.first() else { return };
    let (prefix, address) = (variable_name(&service.name), &service.cluster_ip);
    let mut set = |name: String, value: String| variables.insert(name, value);
    set(format!("{prefix}_SERVICE_HOST"), address.clone());
    set(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        set(format!("{prefix}_SERVICE_PORT_{}", variable_name(&port.name)), port.port.to_string());
    }
    for (index, port) in service.ports.iter().enumerate() {
        let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
        let host_and_port = if address.contains(':') {
            format!("[{address}]:{}", port.port)
        } else {
            format!("{address}:{}", port.port)
        };
        let url = format!("{}://{host_and_port}", protocol.to_lowercase());
        if index == 0 {
            set(format!("{prefix}_PORT"), url.clone());
        }
        let port_prefix = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        set(port_prefix.clone(), url);
        set(format!("{port_prefix}_PROTO"), protocol.to_lowercase());
        set(format!("{port_prefix}_PORT"), port.port.to_string());
        set(format!("{port_prefix}_ADDR"), address.clone());
    }
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use model::ServicePort;
    use serde_json::json;

    use super::*;
    use crate::test_objects::pod;

    fn service(namespace: &str, name: &str, ip: &str, ports: &[(&str, &str, i32)]) -> Service {
        let port = |(name, protocol, port): &(&str, &str, i32)| ServicePort {
            name: (*name).into(),
            protocol: (*protocol).into(),
            port: *port,
        };
        Service {
            namespace: namespace.into(),
            name: name.into(),
            cluster_ip: ip.into(),
            ports: ports.iter().map(port).collect(),
        }
    }

    fn names(links: Option<bool>, services: &[Service]) -> Vec<String> {
        let pod = pod(json!({"containers": [], "enableServiceLinks": links}));
        let hosts = service_environment(&pod, services).into_iter();
        hosts
            .filter(|(name, _)| name.ends_with("_SERVICE_HOST"))
            .map(|(name, value)| name + "=" + &value)
            .collect()
    }

    #[test]
    fn includes_services_of_namespace_and_api_server() {
        let services = [
            service("default", "kubernetes", "10.0.0.1", &[("https", "TCP", 443)]),
            service("default", "web", "10.0.0.2", &[("", "TCP", 80)]),
            service("default", "headless", "None", &[("", "TCP", 80)]),
            service("default", "none", "", &[("", "TCP", 80)]),
            service("other", "db", "10.0.0.3", &[("", "TCP", 80)]),
        ];
        let api = "KUBERNETES_SERVICE_HOST=10.0.0.1".to_owned();
        let web = "WEB_SERVICE_HOST=10.0.0.2".to_owned();
        assert_eq!(names(Some(true), &services), [api.clone(), web.clone()]);
        assert_eq!(names(None, &services), [api.clone(), web]);
        assert_eq!(names(Some(false), &services), [api]);
    }

    #[test]
    fn sets_all_variables_of_a_service() {
        let services = [service("default", "my-web", "fd00::1", &[("http-a", "", 80), ("dns", "UDP", 53)])];
        let pod = pod(json!({"containers": []}));
        let found = service_environment(&pod, &services);
        let expected = [
            ("MY_WEB_PORT", "tcp://[fd00::1]:80"),
            ("MY_WEB_PORT_53_UDP", "udp://[fd00::1]:53"),
            ("MY_WEB_PORT_53_UDP_ADDR", "fd00::1"),
            ("MY_WEB_PORT_53_UDP_PORT", "53"),
            ("MY_WEB_PORT_53_UDP_PROTO", "udp"),
            ("MY_WEB_PORT_80_TCP", "tcp://[fd00::1]:80"),
            ("MY_WEB_PORT_80_TCP_ADDR", "fd00::1"),
            ("MY_WEB_PORT_80_TCP_PORT", "80"),
            ("MY_WEB_PORT_80_TCP_PROTO", "tcp"),
            ("MY_WEB_SERVICE_HOST", "fd00::1"),
            ("MY_WEB_SERVICE_PORT", "80"),
            ("MY_WEB_SERVICE_PORT_DNS", "53"),
            ("MY_WEB_SERVICE_PORT_HTTP_A", "80"),
        ];
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        assert_eq!(found, expected);
    }
}
