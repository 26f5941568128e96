//! Probes, lifecycle hooks and stop signals.

use k8s_openapi::api::core::v1::{
    ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::checker::Checker;
use super::{Context, formats, ports};
use crate::path::Path;

const LINUX_SIGNALS: [&str; 34] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];
const WINDOWS_SIGNALS: [&str; 2] = ["SIGKILL", "SIGTERM"];

/// Checks a liveness probe.
pub(super) fn liveness(probe: Option<&Probe>, at: &Path, check: &mut Checker) {
    let Some(probe) = probe else { return };
    numbers_and_handler(probe, at, check);
    succeeds_at_once(probe, at, check);
}

/// Checks a startup probe.
pub(super) fn startup(probe: Option<&Probe>, at: &Path, check: &mut Checker) {
    liveness(probe, at, check);
}

/// Checks a readiness probe.
pub(super) fn readiness(probe: Option<&Probe>, at: &Path, check: &mut Checker) {
    let Some(probe) = probe else { return };
    numbers_and_handler(probe, at, check);
    if let Some(seconds) = probe.termination_grace_period_seconds {
        check.invalid(
            &at.field("terminationGracePeriodSeconds"),
            seconds,
            "must not be set for readinessProbes",
        );
    }
}

/// Checks a container's hooks and stop signal.
pub(super) fn lifecycle(lifecycle: &Lifecycle, context: &Context<'_>, at: &Path, check: &mut Checker) {
    let grace = context.spec.termination_grace_period_seconds;
    for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(handler) = handler {
            hook(handler, grace, &at.field(field), check);
        }
    }
    let (Some(signal), at) = (lifecycle.stop_signal.as_deref(), at.field("stopSignal")) else { return };
    match context.os() {
        None => check.forbidden(&at, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") => check.one_of(&at, signal, &WINDOWS_SIGNALS),
        Some(_) if is_real_time(signal) => {}
        Some(_) => check.one_of(&at, signal, &LINUX_SIGNALS),
    }
}

/// `SIGRTMIN`, `SIGRTMIN+1` to `+15`, `SIGRTMAX-14` to `-1`, `SIGRTMAX`.
fn is_real_time(signal: &str) -> bool {
    let offset = |prefix: &str| signal.strip_prefix(prefix).and_then(|text| text.parse::<u8>().ok());
    matches!(signal, "SIGRTMIN" | "SIGRTMAX")
        || offset("SIGRTMIN+").is_some_and(|number| (1..=15).contains(&number))
        || offset("SIGRTMAX-").is_some_and(|number| (1..=14).contains(&number))
}

fn numbers_and_handler(probe: &Probe, at: &Path, check: &mut Checker) {
    let handlers = [
        probe.exec.as_ref().map(Handler::Exec),
        probe.http_get.as_ref().map(Handler::HttpGet),
        probe.tcp_socket.as_ref().map(Handler::TcpSocket),
        probe.grpc.as_ref().map(Handler::Grpc),
    ];
    one_handler(handlers, None, at, check);
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        check.not_negative(&at.field(field), i64::from(number.unwrap_or_default()));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds {
        check.positive(&at.field("terminationGracePeriodSeconds"), seconds);
    }
}

fn succeeds_at_once(probe: &Probe, at: &Path, check: &mut Checker) {
    let threshold = probe.success_threshold.unwrap_or_default();
    if threshold != 1 {
        check.invalid(&at.field("successThreshold"), threshold, "must be 1");
    }
}

fn hook(handler: &LifecycleHandler, grace: Option<i64>, at: &Path, check: &mut Checker) {
    let handlers = [
        handler.exec.as_ref().map(Handler::Exec),
        handler.http_get.as_ref().map(Handler::HttpGet),
        handler.tcp_socket.as_ref().map(Handler::TcpSocket),
        handler.sleep.as_ref().map(Handler::Sleep),
    ];
    one_handler(handlers, grace, at, check);
}

enum Handler<'a> {
    Exec(&'a ExecAction),
    HttpGet(&'a HTTPGetAction),
    TcpSocket(&'a TCPSocketAction),
    Grpc(&'a GRPCAction),
    Sleep(&'a SleepAction),
}

impl Handler<'_> {
    fn field(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::HttpGet(_) => "httpGet",
            Self::TcpSocket(_) => "tcpSocket",
            Self::Grpc(_) => "grpc",
            Self::Sleep(_) => "sleep",
        }
    }

    fn check(&self, grace: Option<i64>, at: &Path, check: &mut Checker) {
        match self {
            Self::Exec(exec) if exec.command.as_deref().unwrap_or_default().is_empty() => {
                check.required(&at.field("command"), "");
            }
            Self::Exec(_) => {}
            Self::HttpGet(http) => http_get(http, at, check),
            Self::TcpSocket(tcp) => port(&tcp.port, &at.field("port"), check),
            Self::Grpc(grpc) => ports::port_number(i64::from(grpc.port), &at.field("port"), check),
            Self::Sleep(sleep) => {
                if let Some(grace) = grace.filter(|grace| sleep.seconds < 0 || sleep.seconds > *grace) {
                    let detail = format!("must be between 0 and terminationGracePeriodSeconds ({grace})");
                    check.invalid(at, sleep.seconds, &detail);
                }
            }
        }
    }
}

fn one_handler<'a>(
    handlers: impl IntoIterator<Item = Option<Handler<'a>>>,
    grace: Option<i64>,
    at: &Path,
    check: &mut Checker,
) {
    let mut handlers = handlers.into_iter().flatten();
    match handlers.next() {
        None => check.required(at, "must specify a handler type"),
        Some(handler) => handler.check(grace, &at.field(handler.field()), check),
    }
    for handler in handlers {
        check.forbidden(&at.field(handler.field()), "may not specify more than 1 handler type");
    }
}

fn http_get(http: &HTTPGetAction, at: &Path, check: &mut Checker) {
    check.require_text(&at.field("path"), http.path.as_deref().unwrap_or_default());
    port(&http.port, &at.field("port"), check);
    check.one_of(&at.field("scheme"), http.scheme.as_deref().unwrap_or_default(), &["HTTP", "HTTPS"]);
    for (at, header) in at.field("httpHeaders").items(http.http_headers.as_deref().unwrap_or_default()) {
        check.format(&at.field("name"), &header.name, formats::header_name(&header.name));
    }
}

fn port(port: &IntOrString, at: &Path, check: &mut Checker) {
    match port {
        IntOrString::Int(number) => ports::port_number(i64::from(*number), at, check),
        IntOrString::String(name) => check.format(at, name, formats::port_name(name)),
    }
}
