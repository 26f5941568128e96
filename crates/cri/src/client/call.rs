use std::error::Error;
use std::time::Duration;

use ports::runtime::{RuntimeError, RuntimeErrorKind};
use tonic::{Code, Request, Response, Status, TimeoutExpired};
use tracing::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    In(Duration),
    None,
}

/// Limit for the `grpc-timeout` header, which has at most eight digits.
const MAX_GRPC_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The W3C `traceparent` of a span; `None` if it is not exported.
pub type TraceParentOf = fn(&Span) -> Option<String>;

/// Creates a request that contains its deadline, so that the runtime can abort work whose client has given up, and the
/// current span, so that the runtime's spans join the trace.
pub(super) fn request<T>(
    message: T,
    deadline: Deadline,
    trace_parent_of: Option<TraceParentOf>,
) -> Request<T> {
    let mut request = Request::new(message);
    if let Deadline::In(limit) = deadline {
        request.set_timeout(limit.min(MAX_GRPC_TIMEOUT));
    }
    let parent = trace_parent_of.and_then(|of| of(&Span::current()));
    if let Some(Ok(parent)) = parent.map(|parent| parent.parse()) {
        request.metadata_mut().insert("traceparent", parent);
    }
    request
}

pub(super) async fn with_deadline<T>(
    operation: &'static str,
    deadline: Deadline,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RuntimeError> {
    let result = match deadline {
        Deadline::None => call.await,
        Deadline::In(limit) => match tokio::time::timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => return Err(timed_out(operation, limit)),
        },
    };
    result.map(Response::into_inner).map_err(|status| match operation {
        "pull_image" | "image_status" => image_error(operation, &status),
        _ => runtime_error(operation, &status),
    })
}

/// Creates the error for a response that violates the CRI. `what` completes "the runtime sent ...".
pub(super) fn protocol_violation(operation: &'static str, what: &str) -> RuntimeError {
    RuntimeError { operation, kind: RuntimeErrorKind::Failed, message: format!("the runtime sent {what}") }
}

fn timed_out(operation: &'static str, limit: Duration) -> RuntimeError {
    let message = format!("no response within {limit:?}");
    RuntimeError { operation, kind: RuntimeErrorKind::DeadlineExceeded, message }
}

/// Converts a gRPC status.
pub(super) fn runtime_error(operation: &'static str, status: &Status) -> RuntimeError {
    RuntimeError { operation, kind: kind(status), message: status.message().to_owned() }
}

/// Formats the message of image calls like upstream: with the gRPC code, except for a pull that failed with `Unknown`.
fn image_error(operation: &'static str, status: &Status) -> RuntimeError {
    let message = match status.code() {
        Code::Unknown if operation == "pull_image" => return runtime_error(operation, status),
        Code::Cancelled => format!("rpc error: code = Canceled desc = {}", status.message()),
        code => format!("rpc error: code = {code:?} desc = {}", status.message()),
    };
    RuntimeError { operation, kind: kind(status), message }
}

fn kind(status: &Status) -> RuntimeErrorKind {
    // Only errors of the local transport have a source; tonic assigns various codes to them.
    if let Some(source) = status.source() {
        return if has_expired(source) {
            RuntimeErrorKind::DeadlineExceeded
        } else {
            RuntimeErrorKind::Unavailable
        };
    }
    match status.code() {
        Code::NotFound => RuntimeErrorKind::NotFound,
        Code::Unavailable => RuntimeErrorKind::Unavailable,
        Code::DeadlineExceeded => RuntimeErrorKind::DeadlineExceeded,
        Code::Unimplemented => RuntimeErrorKind::Unimplemented,
        Code::AlreadyExists => RuntimeErrorKind::AlreadyExists,
        Code::ResourceExhausted => RuntimeErrorKind::Exhausted,
        _ if is_busy(status.message()) => RuntimeErrorKind::Busy,
        _ => RuntimeErrorKind::Failed,
    }
}

/// There is no gRPC code for this: containerd reserves a name until an interrupted call is rolled back, and rejects calls
/// for containers that are being started or removed.
fn is_busy(message: &str) -> bool {
    [
        "is reserved for",
        "is in starting state",
        "is in removing state",
        "is already in starting state",
        "is already in removing state",
    ]
    .iter()
    .any(|part| message.contains(part))
}

fn has_expired(error: &(dyn Error + 'static)) -> bool {
    error.is::<TimeoutExpired>() || error.source().is_some_and(has_expired)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_carry_the_deadline_and_the_span_of_the_call() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let traced: TraceParentOf =
            |_| Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
        let untraced: TraceParentOf = |_| None;
        for (of, expected) in [(Some(traced), Some(parent)), (Some(untraced), None), (None, None)] {
            let request = request((), Deadline::In(Duration::from_secs(2)), of);
            let header = |name| request.metadata().get(name).map(|value| value.to_str().unwrap().to_owned());
            assert_eq!(header("traceparent").as_deref(), expected);
            assert_eq!(header("grpc-timeout").as_deref(), Some("2000000u"));
        }
    }

    #[test]
    fn maps_grpc_codes_to_error_kinds() {
        for (code, expected) in [
            (Code::NotFound, RuntimeErrorKind::NotFound),
            (Code::Unavailable, RuntimeErrorKind::Unavailable),
            (Code::DeadlineExceeded, RuntimeErrorKind::DeadlineExceeded),
            (Code::Unimplemented, RuntimeErrorKind::Unimplemented),
            (Code::AlreadyExists, RuntimeErrorKind::AlreadyExists),
            (Code::ResourceExhausted, RuntimeErrorKind::Exhausted),
            (Code::Unknown, RuntimeErrorKind::Failed),
            (Code::Cancelled, RuntimeErrorKind::Failed),
        ] {
            let error = runtime_error("start_container", &Status::new(code, "why"));
            assert_eq!((error.kind, error.message.as_str()), (expected, "why"));
        }
    }

    #[test]
    fn every_deadline_fits_into_the_grpc_timeout_header() {
        for limit in [Duration::from_nanos(1), Duration::from_secs(u64::MAX)] {
            assert!(request((), Deadline::In(limit), None).metadata().contains_key("grpc-timeout"));
        }
    }

    #[test]
    fn image_errors_include_grpc_code_like_upstream() {
        for (operation, code, expected) in [
            ("pull_image", Code::Unknown, "why"),
            ("pull_image", Code::NotFound, "rpc error: code = NotFound desc = why"),
            ("pull_image", Code::Cancelled, "rpc error: code = Canceled desc = why"),
            ("image_status", Code::Unknown, "rpc error: code = Unknown desc = why"),
        ] {
            assert_eq!(image_error(operation, &Status::new(code, "why")).message, expected);
        }
    }

    #[test]
    fn grpc_text_matches_go_client() {
        for (code, expected) in [
            (Code::Unknown, "rpc error: code = Unknown desc = why"),
            (Code::DeadlineExceeded, "rpc error: code = DeadlineExceeded desc = why"),
            (Code::ResourceExhausted, "rpc error: code = ResourceExhausted desc = why"),
        ] {
            assert_eq!(runtime_error("run_podsandbox", &Status::new(code, "why")).grpc_text(), expected);
        }
    }

    #[test]
    fn reserved_names_and_transitional_states_are_busy() {
        for message in [
            "failed to reserve sandbox name \"a_default_u_0\": name \"a_default_u_0\" is reserved for \"1f\"",
            "failed to set removing state for container \"1f\": container is in starting state, can't be removed",
        ] {
            assert_eq!(kind(&Status::new(Code::Unknown, message)), RuntimeErrorKind::Busy, "{message}");
        }
        assert_eq!(kind(&Status::new(Code::Unknown, "exec format error")), RuntimeErrorKind::Failed);
    }

    #[test]
    fn transport_error_is_unavailable_regardless_of_code() {
        let broken = Status::from_error(std::io::Error::other("broken pipe").into());
        assert_eq!(kind(&broken), RuntimeErrorKind::Unavailable);
        let expired = Status::from_error(TimeoutExpired(()).into());
        assert_eq!(kind(&expired), RuntimeErrorKind::DeadlineExceeded);
    }
}
