//! Describes the containers of a pod.

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStatus, EnvVar, EnvVarSource, Pod, Probe,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::Timestamp;
use std::collections::BTreeMap;

use super::description::{Description, or_none};
use crate::command::table::long_time;

pub(super) fn write(description: &mut Description, pod: &Pod) {
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    if !init.is_empty() {
        description.title("Init Containers");
        write_all(description, &init, status.init_container_statuses.as_deref().unwrap_or_default());
    }
    description.title("Containers");
    write_all(description, &spec.containers, status.container_statuses.as_deref().unwrap_or_default());
}

fn write_all(description: &mut Description, containers: &[Container], statuses: &[ContainerStatus]) {
    for container in containers {
        let status = statuses.iter().find(|status| status.name == container.name);
        description.raw(1, &format!("{}:", container.name));
        write_container(description, container, status);
    }
}

fn write_container(description: &mut Description, container: &Container, status: Option<&ContainerStatus>) {
    let text = |field: Option<&String>| field.cloned().unwrap_or_default();
    description.nested(2, "Container ID", &text(status.and_then(|status| status.container_id.as_ref())));
    description.nested(2, "Image", &text(container.image.as_ref()));
    description.nested(2, "Image ID", &text(status.map(|status| &status.image_id)));
    let ports: Vec<String> = container
        .ports
        .iter()
        .flatten()
        .map(|port| {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let host = port.host_port.filter(|port| *port > 0).map(|port| format!(" (host {port})"));
            format!("{}/{protocol}{}", port.container_port, host.unwrap_or_default())
        })
        .collect();
    description.nested(2, "Ports", &or_none(&ports, ", "));
    for (title, arguments) in [("Command", &container.command), ("Args", &container.args)] {
        if let Some(arguments) = arguments.as_ref().filter(|arguments| !arguments.is_empty()) {
            description.nested(2, title, &arguments.join("\n"));
        }
    }
    write_state(description, "State", status.and_then(|status| status.state.as_ref()));
    let last = status.and_then(|status| status.last_state.as_ref());
    if last.is_some_and(|state| state.terminated.is_some()) {
        write_state(description, "Last State", last);
    }
    let ready = status.is_some_and(|status| status.ready);
    description.nested(2, "Ready", if ready { "True" } else { "False" });
    description.nested(2, "Restart Count", &status.map_or(0, |status| status.restart_count).to_string());
    let resources = container.resources.clone().unwrap_or_default();
    write_amounts(description, "Limits", resources.limits.as_ref());
    write_amounts(description, "Requests", resources.requests.as_ref());
    for (title, probe) in [
        ("Liveness", &container.liveness_probe),
        ("Readiness", &container.readiness_probe),
        ("Startup", &container.startup_probe),
    ] {
        if let Some(probe) = probe {
            description.nested(2, title, &describe_probe(probe));
        }
    }
    write_environment(description, container);
    let mounts: Vec<String> = container
        .volume_mounts
        .iter()
        .flatten()
        .map(|mount| {
            let mode = if mount.read_only == Some(true) { "ro" } else { "rw" };
            let sub_path = mount.sub_path.as_ref().map(|path| format!(", path={path:?}")).unwrap_or_default();
            format!("{} from {} ({mode}{sub_path})", mount.mount_path, mount.name)
        })
        .collect();
    description.nested(2, "Mounts", &or_none(&mounts, "\n"));
}

fn write_state(description: &mut Description, title: &str, state: Option<&ContainerState>) {
    let state = state.cloned().unwrap_or_default();
    let time = |time: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.map(|time| long_time(Timestamp::from_api_time(time))).unwrap_or_default()
    };
    let optional = |description: &mut Description, title: &str, value: Option<&String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            description.nested(3, title, value.trim_end());
        }
    };
    if let Some(running) = &state.running {
        description.nested(2, title, "Running");
        description.nested(3, "Started", &time(running.started_at.as_ref()));
    } else if let Some(terminated) = &state.terminated {
        description.nested(2, title, "Terminated");
        optional(description, "Reason", terminated.reason.as_ref());
        optional(description, "Message", terminated.message.as_ref());
        description.nested(3, "Exit Code", &terminated.exit_code.to_string());
        description.nested(3, "Started", &time(terminated.started_at.as_ref()));
        description.nested(3, "Finished", &time(terminated.finished_at.as_ref()));
    } else {
        description.nested(2, title, "Waiting");
        let waiting = state.waiting.unwrap_or_default();
        optional(description, "Reason", waiting.reason.as_ref());
        optional(description, "Message", waiting.message.as_ref());
    }
}

fn write_amounts(description: &mut Description, title: &str, amounts: Option<&BTreeMap<String, Quantity>>) {
    let Some(amounts) = amounts.filter(|amounts| !amounts.is_empty()) else { return };
    description.nested(2, title, "");
    for (name, amount) in amounts {
        description.nested(3, name, &amount.0);
    }
}

fn write_environment(description: &mut Description, container: &Container) {
    for source in container.env_from.iter().flatten() {
        let named = [
            ("ConfigMap", source.config_map_ref.as_ref().map(|found| (&found.name, found.optional))),
            ("Secret", source.secret_ref.as_ref().map(|found| (&found.name, found.optional))),
        ];
        for (kind, found) in named {
            if let Some((name, optional)) = found {
                let optional = optional.unwrap_or(false);
                description.nested(2, "Environment from", &format!("{name} {kind} Optional: {optional}"));
            }
        }
    }
    let variables: Vec<&EnvVar> = container.env.iter().flatten().collect();
    description.nested(2, "Environment", if variables.is_empty() { "<none>" } else { "" });
    for variable in variables {
        let value = match &variable.value_from {
            Some(source) => describe_source(source),
            None => variable.value.clone().unwrap_or_default(),
        };
        description.nested(3, &variable.name, &value);
    }
}

/// Names the source of a value. The content of a Secret is never printed.
fn describe_source(source: &EnvVarSource) -> String {
    if let Some(found) = &source.config_map_key_ref {
        return format!("<set to the key '{}' of config map '{}'>", found.key, found.name);
    }
    if let Some(found) = &source.secret_key_ref {
        return format!("<set to the key '{}' in secret '{}'>", found.key, found.name);
    }
    if let Some(found) = &source.field_ref {
        return format!("({})", found.field_path);
    }
    if let Some(found) = &source.resource_field_ref {
        return format!("({})", found.resource);
    }
    "<set from a file>".to_owned()
}

fn describe_probe(probe: &Probe) -> String {
    let port = |port: &IntOrString| match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let action = if let Some(exec) = &probe.exec {
        format!("exec {:?}", exec.command.clone().unwrap_or_default())
    } else if let Some(get) = &probe.http_get {
        let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let host = get.host.as_deref().unwrap_or_default();
        format!("http-get {scheme}://{host}:{}{}", port(&get.port), get.path.as_deref().unwrap_or_default())
    } else if let Some(tcp) = &probe.tcp_socket {
        format!("tcp-socket {}:{}", tcp.host.as_deref().unwrap_or_default(), port(&tcp.port))
    } else if let Some(grpc) = &probe.grpc {
        format!("grpc <pod>:{} {}", grpc.port, grpc.service.as_deref().unwrap_or_default())
            .trim_end()
            .to_owned()
    } else {
        "unknown".to_owned()
    };
    format!(
        "{action} delay={}s timeout={}s period={}s #success={} #failure={}",
        probe.initial_delay_seconds.unwrap_or(0),
        probe.timeout_seconds.unwrap_or(1),
        probe.period_seconds.unwrap_or(10),
        probe.success_threshold.unwrap_or(1),
        probe.failure_threshold.unwrap_or(3)
    )
}
