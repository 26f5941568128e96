//! JSON in the format of Go's encoder: fields in order of definition, empty fields omitted, `<`, `>` and `&` escaped.
//! Upstream compares these annotations byte by byte.

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction, HTTPHeader, LifecycleHandler};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::go_text::json_string as string;

pub(super) fn lifecycle_handler(handler: &LifecycleHandler) -> String {
    let mut object = Object::default();
    if let Some(exec) = &handler.exec {
        let command = exec.command.iter().flatten().map(|argument| string(argument));
        object.value("exec", &Object::default().list("command", command).finish());
    }
    if let Some(get) = &handler.http_get {
        object.value("httpGet", &http_get(get));
    }
    if let Some(socket) = &handler.tcp_socket {
        let mut fields = Object::default();
        fields.value("port", &port(&socket.port)).text("host", socket.host.as_deref());
        object.value("tcpSocket", &fields.finish());
    }
    if let Some(sleep) = &handler.sleep {
        object.value("sleep", &Object::default().value("seconds", &sleep.seconds.to_string()).finish());
    }
    object.finish()
}

pub(super) fn container_ports(ports: &[ContainerPort]) -> String {
    array(ports.iter().map(|port| {
        let mut object = Object::default();
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
        Object::default().value("name", &string(name)).value("value", &string(value)).finish()
    });
    let mut object = Object::default();
    object.text("path", get.path.as_deref()).value("port", &port(&get.port));
    object.text("host", get.host.as_deref()).text("scheme", get.scheme.as_deref());
    object.list("httpHeaders", headers);
    object.finish()
}

fn port(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => string(name),
    }
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// A JSON object under construction; keys are not escaped.
#[derive(Default)]
struct Object(String);

impl Object {
    fn value(&mut self, key: &str, json: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.extend(["\"", key, "\":", json]);
        self
    }

    /// Omitted when empty.
    fn text(&mut self, key: &str, text: Option<&str>) -> &mut Self {
        match text.unwrap_or_default() {
            "" => self,
            text => self.value(key, &string(text)),
        }
    }

    /// Omitted when empty.
    fn list(&mut self, key: &str, items: impl Iterator<Item = String>) -> &mut Self {
        let mut items = items.peekable();
        if items.peek().is_none() {
            return self;
        }
        self.value(key, &array(items))
    }

    fn finish(&self) -> String {
        format!("{{{}}}", self.0)
    }
}
