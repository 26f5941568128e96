//! Rules for probes, lifecycle hooks and stop signals.

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

pub(super) fn check_liveness(probe: Option<&Probe>, path: &Path, checker: &mut Checker) {
    let Some(probe) = probe else { return };
    check_timing_and_handler(probe, path, checker);
    check_success_threshold_is_one(probe, path, checker);
}

pub(super) fn check_startup(probe: Option<&Probe>, path: &Path, checker: &mut Checker) {
    check_liveness(probe, path, checker);
}

pub(super) fn check_readiness(probe: Option<&Probe>, path: &Path, checker: &mut Checker) {
    let Some(probe) = probe else { return };
    check_timing_and_handler(probe, path, checker);
    if let Some(seconds) = probe.termination_grace_period_seconds {
        checker.invalid(
            &path.field("terminationGracePeriodSeconds"),
            seconds,
            "must not be set for readinessProbes",
        );
    }
}

pub(super) fn check_lifecycle(
    lifecycle: &Lifecycle,
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    let grace = context.spec.termination_grace_period_seconds;
    for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(handler) = handler {
            check_hook(handler, grace, &path.field(field), checker);
        }
    }
    let (Some(signal), path) = (lifecycle.stop_signal.as_deref(), path.field("stopSignal")) else { return };
    match context.os() {
        None => checker.forbidden(&path, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") => checker.one_of(&path, signal, &WINDOWS_SIGNALS),
        Some(_) if is_real_time(signal) => {}
        Some(_) => checker.one_of(&path, signal, &LINUX_SIGNALS),
    }
}

/// Accepts `SIGRTMIN`, `SIGRTMIN+1` to `+15`, `SIGRTMAX-14` to `-1` and `SIGRTMAX`.
fn is_real_time(signal: &str) -> bool {
    let offset = |prefix: &str| signal.strip_prefix(prefix).and_then(|text| text.parse::<u8>().ok());
    matches!(signal, "SIGRTMIN" | "SIGRTMAX")
        || offset("SIGRTMIN+").is_some_and(|number| (1..=15).contains(&number))
        || offset("SIGRTMAX-").is_some_and(|number| (1..=14).contains(&number))
}

fn check_timing_and_handler(probe: &Probe, path: &Path, checker: &mut Checker) {
    let handlers = [
        probe.exec.as_ref().map(Handler::Exec),
        probe.http_get.as_ref().map(Handler::HttpGet),
        probe.tcp_socket.as_ref().map(Handler::TcpSocket),
        probe.grpc.as_ref().map(Handler::Grpc),
    ];
    check_one_handler(handlers, None, path, checker);
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        checker.not_negative(&path.field(field), i64::from(number.unwrap_or_default()));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds {
        checker.positive(&path.field("terminationGracePeriodSeconds"), seconds);
    }
}

fn check_success_threshold_is_one(probe: &Probe, path: &Path, checker: &mut Checker) {
    let threshold = probe.success_threshold.unwrap_or_default();
    if threshold != 1 {
        checker.invalid(&path.field("successThreshold"), threshold, "must be 1");
    }
}

fn check_hook(handler: &LifecycleHandler, grace: Option<i64>, path: &Path, checker: &mut Checker) {
    let handlers = [
        handler.exec.as_ref().map(Handler::Exec),
        handler.http_get.as_ref().map(Handler::HttpGet),
        handler.tcp_socket.as_ref().map(Handler::TcpSocket),
        handler.sleep.as_ref().map(Handler::Sleep),
    ];
    check_one_handler(handlers, grace, path, checker);
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

    fn check(&self, grace: Option<i64>, path: &Path, checker: &mut Checker) {
        match self {
            Self::Exec(exec) if exec.command.as_deref().unwrap_or_default().is_empty() => {
                checker.required(&path.field("command"), "");
            }
            Self::Exec(_) => {}
            Self::HttpGet(http) => check_http_get(http, path, checker),
            Self::TcpSocket(tcp) => check_port(&tcp.port, &path.field("port"), checker),
            Self::Grpc(grpc) => ports::check_port_number(i64::from(grpc.port), &path.field("port"), checker),
            Self::Sleep(sleep) => {
                if let Some(grace) = grace.filter(|grace| sleep.seconds < 0 || sleep.seconds > *grace) {
                    let detail = format!("must be between 0 and terminationGracePeriodSeconds ({grace})");
                    checker.invalid(path, sleep.seconds, &detail);
                }
            }
        }
    }
}

fn check_one_handler<'a>(
    handlers: impl IntoIterator<Item = Option<Handler<'a>>>,
    grace: Option<i64>,
    path: &Path,
    checker: &mut Checker,
) {
    let mut handlers = handlers.into_iter().flatten();
    match handlers.next() {
        None => checker.required(path, "must specify a handler type"),
        Some(handler) => handler.check(grace, &path.field(handler.field()), checker),
    }
    for handler in handlers {
        checker.forbidden(&path.field(handler.field()), "may not specify more than 1 handler type");
    }
}

fn check_http_get(http: &HTTPGetAction, path: &Path, checker: &mut Checker) {
    checker.require_text(&path.field("path"), http.path.as_deref().unwrap_or_default());
    check_port(&http.port, &path.field("port"), checker);
    checker.one_of(&path.field("scheme"), http.scheme.as_deref().unwrap_or_default(), &["HTTP", "HTTPS"]);
    for (path, header) in path.field("httpHeaders").items(http.http_headers.as_deref().unwrap_or_default()) {
        checker.format(&path.field("name"), &header.name, formats::header_name(&header.name));
    }
}

fn check_port(port: &IntOrString, path: &Path, checker: &mut Checker) {
    match port {
        IntOrString::Int(number) => ports::check_port_number(i64::from(*number), path, checker),
        IntOrString::String(name) => checker.format(path, name, formats::port_name(name)),
    }
}
