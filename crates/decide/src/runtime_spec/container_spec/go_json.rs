//! Handlers and ports as Go's JSON encoder writes them: fields in order of definition, empty fields omitted.
//! Upstream compares these annotations byte by byte.

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction, HTTPHeader, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::go_text::{JsonObject, json_array, json_string};

pub(super) fn lifecycle_handler(handler: &LifecycleHandler) -> String {
    let mut object = JsonObject::default();
    if let Some(exec) = &handler.exec {
        let command = exec.command.iter().flatten().map(|argument| json_string(argument));
        object.value("exec", &JsonObject::default().list("command", command).finish());
    }
    if let Some(get) = &handler.http_get {
        object.value("httpGet", &http_get(get));
    }
    if let Some(socket) = &handler.tcp_socket {
        let mut fields = JsonObject::default();
        fields.value("port", &port(&socket.port)).text("host", socket.host.as_deref());
        object.value("tcpSocket", &fields.finish());
    }
    if let Some(sleep) = &handler.sleep {
        object.value("sleep", &JsonObject::default().value("seconds", &sleep.seconds.to_string()).finish());
    }
    object.finish()
}

pub(super) fn container_ports(ports: &[ContainerPort]) -> String {
    json_array(ports.iter().map(|port| {
        let mut object = JsonObject::default();
        object.text("name", port.name.as_deref());
        if let Some(host_port) = port.host_port.filter(|port| *port != 0) {
            object.value("hostPort", &host_port.to_string());
        }
        object.value("containerPort", &port.container_port.to_string());
        object.text("protocol", port.protocol.as_deref()).text("hostIP", port.host_ip.as_deref());
        object.finish()
    }))
}

fn http_get(get: &HTTPGetAction) -> String {
    let headers = get.http_headers.iter().flatten().map(|HTTPHeader { name, value }| {
        JsonObject::default().value("name", &json_string(name)).value("value", &json_string(value)).finish()
    });
    let mut object = JsonObject::default();
    object.text("path", get.path.as_deref()).value("port", &port(&get.port));
    object.text("host", get.host.as_deref()).text("scheme", get.scheme.as_deref());
    object.list("httpHeaders", headers);
    object.finish()
}

fn port(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => json_string(name),
    }
}
