//! Lifecycle hooks: the action of a handler, and the message when it fails.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Lifecycle, LifecycleHandler, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::{ContainerStatus, ExecOutput, Pod, labels};

use crate::go_text::quoted;

/// The action of a lifecycle handler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hook<'a> {
    Exec(&'a [String]),
    Http(&'a HTTPGetAction),
    Sleep(Duration),
    /// A TCP socket handler, or none at all; neither can be run.
    Invalid(&'a LifecycleHandler),
}

impl<'a> Hook<'a> {
    /// The action of a handler; the first of several counts.
    pub fn of(handler: &'a LifecycleHandler) -> Self {
        if let Some(exec) = &handler.exec {
            Self::Exec(exec.command.as_deref().unwrap_or_default())
        } else if let Some(get) = &handler.http_get {
            Self::Http(get)
        } else if let Some(sleep) = &handler.sleep {
            Self::Sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0)))
        } else {
            Self::Invalid(handler)
        }
    }

    /// The message of the event after the hook failed with `error`. `output` is the output of the command.
    pub fn failure_message(&self, pod: &Pod, container: &str, error: &str, output: &[u8]) -> String {
        let subject = format!("for Container {} in Pod {}", quoted(container), quoted(&pod.log_name()));
        match self {
            Self::Exec(command) => format!(
                "Exec lifecycle hook ([{}]) {subject} failed - error: {error}, message: {}",
                command.join(" "),
                quoted(&String::from_utf8_lossy(output))
            ),
            Self::Http(get) => {
                let path = get.path.as_deref().unwrap_or_default();
                format!("HTTP lifecycle hook ({path}) {subject} failed - error: {error}")
            }
            Self::Sleep(time) => {
                format!("Sleep lifecycle hook ({}) {subject} failed - error: {error}", time.as_secs())
            }
            Self::Invalid(_) => format!("Cannot run handler: {error}"),
        }
    }
}

/// The error for a handler that cannot be run.
pub fn invalid_handler(handler: &LifecycleHandler) -> String {
    let socket = handler.tcp_socket.as_ref().map_or_else(|| "nil".to_owned(), tcp_socket);
    format!("invalid handler: &LifecycleHandler{{Exec:nil,HTTPGet:nil,TCPSocket:{socket},Sleep:nil,}}")
}

/// Resolves the port of a hook or a probe: a number, or the name of one of the container's ports.
///
/// # Errors
/// When there is no such port.
pub fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(name));
            match named {
                Some(port) => port.container_port,
                None => name
                    .parse()
                    .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", quoted(name)))?,
            }
        }
    };
    u16::try_from(number)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| format!("invalid port number: {number}"))
}

/// The error of a failed command; `None` if it succeeded.
pub fn exec_error(command: &[String], output: &ExecOutput) -> Option<String> {
    (output.exit_code != 0).then(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        format!("command '{}' exited with {}: {stderr}", command.join(" "), output.exit_code)
    })
}

/// Rebuilds the parts of a container spec that are needed to stop the container, from the annotations of the runtime.
pub fn container_from_status(status: &ContainerStatus) -> Container {
    let text = |key| status.annotations.get(key).map(String::as_str).unwrap_or_default();
    let pre_stop = serde_json::from_str::<LifecycleHandler>(text(labels::PRE_STOP_HANDLER)).ok();
    Container {
        name: status.name.clone(),
        ports: serde_json::from_str(text(labels::CONTAINER_PORTS)).ok(),
        lifecycle: pre_stop.map(|handler| Lifecycle { pre_stop: Some(handler), ..Lifecycle::default() }),
        ..Container::default()
    }
}

fn tcp_socket(socket: &TCPSocketAction) -> String {
    let port = match &socket.port {
        IntOrString::Int(number) => format!("{{0 {number} }}"),
        IntOrString::String(name) => format!("{{1 0 {name}}}"),
    };
    format!("&TCPSocketAction{{Port:{port},Host:{},}}", socket.host.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_objects::{container, pod};

    fn handler(value: Value) -> LifecycleHandler {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn failure_message_names_command_container_pod_and_error() {
        let pod = pod(json!({"containers": []}));
        let exec = handler(json!({"exec": {"command": ["/bin/sh", "-c", "exit 3"]}}));
        let hook = Hook::of(&exec);
        let Hook::Exec(command) = hook else { unreachable!("{hook:?}") };
        let output = ExecOutput { exit_code: 3, stdout: Vec::new(), stderr: b"no\n".to_vec() };
        let error = exec_error(command, &output).unwrap();
        assert_eq!(error, "command '/bin/sh -c exit 3' exited with 3: no\n");
        assert_eq!(
            hook.failure_message(&pod, "a", "why", b"say \"no\"\n\x01"),
            "Exec lifecycle hook ([/bin/sh -c exit 3]) for Container \"a\" in Pod \"p_default(u)\" failed - error: why, \
             message: \"say \\\"no\\\"\\n\\x01\""
        );
        assert_eq!(exec_error(command, &ExecOutput::default()), None);
        let get = handler(json!({"httpGet": {"path": "/x", "port": 80}}));
        assert_eq!(
            Hook::of(&get).failure_message(&pod, "a", "why", b""),
            "HTTP lifecycle hook (/x) for Container \"a\" in Pod \"p_default(u)\" failed - error: why"
        );
    }

    #[test]
    fn rejects_socket_and_empty_handlers() {
        let socket = handler(json!({"tcpSocket": {"port": 80}}));
        assert_eq!(Hook::of(&socket), Hook::Invalid(&socket));
        assert_eq!(
            invalid_handler(&socket),
            "invalid handler: &LifecycleHandler{Exec:nil,HTTPGet:nil,TCPSocket:&TCPSocketAction{Port:{0 80 },Host:,},Sleep:nil,}"
        );
        assert!(invalid_handler(&handler(json!({}))).contains("TCPSocket:nil"));
    }

    #[test]
    fn resolves_port_by_number_or_name() {
        let container: Container =
            serde_json::from_value(json!({"name": "a", "ports": [{"name": "web", "containerPort": 8080}]}))
                .unwrap();
        let port = |value: Value| resolve_port(&serde_json::from_value(value).unwrap(), &container);
        assert_eq!(port(json!(80)), Ok(80));
        assert_eq!(port(json!("web")), Ok(8080));
        assert_eq!(port(json!("81")), Ok(81));
        assert_eq!(port(json!("db")), Err("strconv.Atoi: parsing \"db\": invalid syntax".into()));
        assert_eq!(port(json!(70000)), Err("invalid port number: 70000".into()));
    }

    #[test]
    fn accepts_sleep_of_zero_seconds() {
        assert_eq!(Hook::of(&handler(json!({"sleep": {"seconds": 0}}))), Hook::Sleep(Duration::ZERO));
    }

    #[test]
    fn restores_pre_stop_hook_and_ports_from_annotations() {
        let mut status = container("1", "a", 0, model::ContainerState::Running);
        assert_eq!(container_from_status(&status).lifecycle, None);
        status
            .annotations
            .insert(labels::PRE_STOP_HANDLER.into(), r#"{"httpGet":{"path":"/bye","port":"web"}}"#.into());
        status
            .annotations
            .insert(labels::CONTAINER_PORTS.into(), r#"[{"name":"web","containerPort":8080}]"#.into());
        let restored = container_from_status(&status);
        assert_eq!(restored.ports.unwrap()[0].container_port, 8080);
        assert!(restored.lifecycle.unwrap().pre_stop.unwrap().http_get.is_some());
        status.annotations.insert(labels::PRE_STOP_HANDLER.into(), "nonsense".into());
        assert_eq!(container_from_status(&status).lifecycle, None);
    }
}
