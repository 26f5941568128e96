//! What plugins read.

use serde_json::{Map, Value, json};

use super::config::{NetworkConfig, Plugin};
use crate::network::cidr::Cidr;
use crate::network::request::{Bandwidth, PodNetworkRequest};

/// containerd's burst.
const BURST: u32 = u32::MAX;

/// The values that podward has for capabilities, by the name of the capability.
pub(super) fn capability_values(request: &PodNetworkRequest, bandwidth: Bandwidth, ranges: &[Cidr]) -> Value {
    let mut values = Map::new();
    let ports: Vec<Value> = request
        .port_mappings
        .iter()
        .filter(|port| port.host_port != 0)
        .map(|port| {
            let mut mapping = json!({
                "hostPort": port.host_port,
                "containerPort": port.container_port,
                "protocol": port.protocol.name(),
            });
            if let Some(address) = port.host_ip {
                mapping["hostIP"] = json!(address);
            }
            mapping
        })
        .collect();
    if !ports.is_empty() {
        values.insert("portMappings".to_owned(), Value::Array(ports));
    }
    if bandwidth != Bandwidth::default() {
        let mut limits = Map::new();
        for (direction, rate) in [("ingress", bandwidth.ingress), ("egress", bandwidth.egress)] {
            if let Some(rate) = rate {
                limits.insert(format!("{direction}Rate"), json!(rate));
                limits.insert(format!("{direction}Burst"), json!(BURST));
            }
        }
        values.insert("bandwidth".to_owned(), Value::Object(limits));
    }
    let dns = &request.dns;
    if !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty()) {
        let dns = json!({ "servers": dns.servers, "searches": dns.searches, "options": dns.options });
        values.insert("dns".to_owned(), dns);
    }
    if !request.cgroup_parent.is_empty() {
        values.insert("cgroupPath".to_owned(), json!(request.cgroup_parent));
    }
    values.insert("io.kubernetes.cri.pod-annotations".to_owned(), json!(request.annotations));
    let ranges: Vec<Value> = ranges.iter().map(|range| json!([{ "subnet": range.to_string() }])).collect();
    values.insert("ipRanges".to_owned(), Value::Array(ranges));
    Value::Object(values)
}

/// The plugin's part of the configuration, with what the runtime adds.
pub(super) fn for_plugin(
    network: &NetworkConfig,
    plugin: &Plugin,
    capability_values: &Value,
    previous: Option<&Value>,
) -> Value {
    let mut input = plugin.object.clone();
    input.insert("cniVersion".to_owned(), json!(network.version.to_string()));
    input.insert("name".to_owned(), json!(network.name));
    let wanted = capability_values.as_object().into_iter().flatten();
    let wanted = wanted.filter(|(name, _)| plugin.capabilities.contains(name.as_str()));
    let values: Map<String, Value> = wanted.map(|(name, value)| (name.clone(), value.clone())).collect();
    if !values.is_empty() {
        input.insert("runtimeConfig".to_owned(), Value::Object(values));
    }
    if let Some(previous) = previous {
        input.insert("prevResult".to_owned(), previous.clone());
    }
    Value::Object(input)
}
