//! Rules for probes, lifecycle hooks and stop signals.

use k8s_openapi::api::core::v1::{
    ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe, SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::field::Field;
use super::{Context, formats, ports};

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

pub(super) fn check_liveness_or_startup(probe: &Probe, at: &Field<'_>) {
    check_timing_and_handler(probe, at);
    let threshold = probe.success_threshold.unwrap_or_default();
    if threshold != 1 {
        at.field("successThreshold").invalid(threshold, "must be 1");
    }
}

pub(super) fn check_readiness(probe: &Probe, at: &Field<'_>) {
    check_timing_and_handler(probe, at);
    if let Some(seconds) = probe.termination_grace_period_seconds {
        at.field("terminationGracePeriodSeconds").invalid(seconds, "must not be set for readinessProbes");
    }
}

pub(super) fn check_lifecycle(lifecycle: &Lifecycle, context: &Context<'_>, at: &Field<'_>) {
    let grace = context.spec.termination_grace_period_seconds;
    for (field, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        at.if_set(field, handler, |handler, at| check_hook(handler, grace, at));
    }
    let (Some(signal), at) = (lifecycle.stop_signal.as_deref(), at.field("stopSignal")) else { return };
    match context.os() {
        None => at.forbidden("may not be set for containers with empty `spec.os.name`"),
        Some("windows") => at.one_of(signal, &WINDOWS_SIGNALS),
        Some(_) if is_real_time(signal) => {}
        Some(_) => at.one_of(signal, &LINUX_SIGNALS),
    }
}

/// Accepts `SIGRTMIN`, `SIGRTMIN+1` to `+15`, `SIGRTMAX-14` to `-1` and `SIGRTMAX`.
fn is_real_time(signal: &str) -> bool {
    let offset = |prefix: &str| signal.strip_prefix(prefix).and_then(|text| text.parse::<u8>().ok());
    matches!(signal, "SIGRTMIN" | "SIGRTMAX")
        || offset("SIGRTMIN+").is_some_and(|number| (1..=15).contains(&number))
        || offset("SIGRTMAX-").is_some_and(|number| (1..=14).contains(&number))
}

fn check_timing_and_handler(probe: &Probe, at: &Field<'_>) {
    let handlers = [
        probe.exec.as_ref().map(Handler::Exec),
        probe.http_get.as_ref().map(Handler::HttpGet),
        probe.tcp_socket.as_ref().map(Handler::TcpSocket),
        probe.grpc.as_ref().map(Handler::Grpc),
    ];
    check_one_handler(handlers, None, at);
    for (field, number) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        at.field(field).not_negative(i64::from(number.unwrap_or_default()));
    }
    if let Some(seconds) = probe.termination_grace_period_seconds {
        at.field("terminationGracePeriodSeconds").positive(seconds);
    }
}

fn check_hook(handler: &LifecycleHandler, grace: Option<i64>, at: &Field<'_>) {
    let handlers = [
        handler.exec.as_ref().map(Handler::Exec),
        handler.http_get.as_ref().map(Handler::HttpGet),
        handler.tcp_socket.as_ref().map(Handler::TcpSocket),
        handler.sleep.as_ref().map(Handler::Sleep),
    ];
    check_one_handler(handlers, grace, at);
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

    fn check(&self, grace: Option<i64>, at: &Field<'_>) {
        match self {
            Self::Exec(exec) if exec.command.as_deref().unwrap_or_default().is_empty() => {
                at.field("command").required("");
            }
            Self::Exec(_) => {}
            Self::HttpGet(http) => check_http_get(http, at),
            Self::TcpSocket(tcp) => check_port(&tcp.port, &at.field("port")),
            Self::Grpc(grpc) => ports::check_port_number(i64::from(grpc.port), &at.field("port")),
            Self::Sleep(sleep) => {
                if let Some(grace) = grace.filter(|grace| sleep.seconds < 0 || sleep.seconds > *grace) {
                    let detail = format!("must be between 0 and terminationGracePeriodSeconds ({grace})");
                    at.invalid(sleep.seconds, &detail);
                }
            }
        }
    }
}

fn check_one_handler<'a>(
    handlers: impl IntoIterator<Item = Option<Handler<'a>>>,
    grace: Option<i64>,
    at: &Field<'_>,
) {
    let mut handlers = handlers.into_iter().flatten();
    match handlers.next() {
        None => at.required("must specify a handler type"),
        Some(handler) => handler.check(grace, &at.field(handler.field())),
    }
    for handler in handlers {
        at.field(handler.field()).forbidden("may not specify more than 1 handler type");
    }
}

fn check_http_get(http: &HTTPGetAction, at: &Field<'_>) {
    at.field("path").require(http.path.as_deref().unwrap_or_default());
    check_port(&http.port, &at.field("port"));
    at.field("scheme").one_of(http.scheme.as_deref().unwrap_or_default(), &["HTTP", "HTTPS"]);
    for (at, header) in at.list("httpHeaders", &http.http_headers) {
        at.field("name").format(&header.name, formats::header_name);
    }
}

fn check_port(port: &IntOrString, at: &Field<'_>) {
    match port {
        IntOrString::Int(number) => ports::check_port_number(i64::from(*number), at),
        IntOrString::String(name) => at.format(name, formats::port_name),
    }
}
