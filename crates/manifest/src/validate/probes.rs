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
    let mut handlers = Handlers { at, has_one: false };
    handlers.add("exec", &probe.exec, check_exec);
    handlers.add("httpGet", &probe.http_get, check_http_get);
    handlers.add("tcpSocket", &probe.tcp_socket, check_tcp_socket);
    handlers.add("grpc", &probe.grpc, |grpc: &GRPCAction, at| {
        ports::check_port_number(i64::from(grpc.port), &at.field("port"));
    });
    handlers.finish();
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
    let mut handlers = Handlers { at, has_one: false };
    handlers.add("exec", &handler.exec, check_exec);
    handlers.add("httpGet", &handler.http_get, check_http_get);
    handlers.add("tcpSocket", &handler.tcp_socket, check_tcp_socket);
    handlers.add("sleep", &handler.sleep, |sleep: &SleepAction, at| {
        if let Some(grace) = grace.filter(|grace| sleep.seconds < 0 || sleep.seconds > *grace) {
            let detail = format!("must be between 0 and terminationGracePeriodSeconds ({grace})");
            at.invalid(sleep.seconds, &detail);
        }
    });
    handlers.finish();
}

/// The handlers of a probe or hook, which must have exactly one.
struct Handlers<'a> {
    at: &'a Field<'a>,
    has_one: bool,
}

impl Handlers<'_> {
    /// Checks the first handler that is set, and forbids all others.
    fn add<T>(&mut self, field: &str, handler: &Option<T>, check: impl FnOnce(&T, &Field<'_>)) {
        let Some(handler) = handler else { return };
        let at = self.at.field(field);
        match std::mem::replace(&mut self.has_one, true) {
            false => check(handler, &at),
            true => at.forbidden("may not specify more than 1 handler type"),
        }
    }

    fn finish(self) {
        if !self.has_one {
            self.at.required("must specify a handler type");
        }
    }
}

fn check_exec(exec: &ExecAction, at: &Field<'_>) {
    if exec.command.as_deref().unwrap_or_default().is_empty() {
        at.field("command").required("");
    }
}

fn check_tcp_socket(tcp: &TCPSocketAction, at: &Field<'_>) {
    check_port(&tcp.port, &at.field("port"));
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
