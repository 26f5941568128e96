use std::error::Error;
use std::time::Duration;

use ports::runtime::{RuntimeError, RuntimeErrorKind};
use tonic::{Code, Request, Response, Status, TimeoutExpired};

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// This long.
    In(Duration),
    /// As long as it needs.
    None,
}

/// The longest deadline that is told: gRPC cannot write every number of seconds.
const LONGEST_TOLD: Duration = Duration::from_secs(365 * 24 * 3600);

/// A request that tells the runtime its deadline, so that it does not work for nobody.
pub(super) fn request<T>(message: T, deadline: Deadline) -> Request<T> {
    let mut request = Request::new(message);
    if let Deadline::In(limit) = deadline {
        request.set_timeout(limit.min(LONGEST_TOLD));
    }
    request
}

/// Awaits an answer under its deadline.
pub(super) async fn answer<T>(
    operation: &'static str,
    deadline: Deadline,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, RuntimeError> {
    let result = match deadline {
        Deadline::None => call.await,
        Deadline::In(limit) => match tokio::time::timeout(limit, call).await {
            Ok(result) => result,
            Err(_) => return Err(too_late(operation, limit)),
        },
    };
    result.map(Response::into_inner).map_err(|status| match operation {
        "pull_image" | "image_status" => image_failure(operation, &status),
        _ => failure(operation, &status),
    })
}

/// An answer that the contract does not allow.
pub(super) fn broken(operation: &'static str, what: &str) -> RuntimeError {
    RuntimeError { operation, kind: RuntimeErrorKind::Failed, message: format!("the runtime sent {what}") }
}

fn too_late(operation: &'static str, limit: Duration) -> RuntimeError {
    let message = format!("no answer in {limit:?}");
    RuntimeError { operation, kind: RuntimeErrorKind::DeadlineExceeded, message }
}

/// The port's view of a gRPC failure.
pub(super) fn failure(operation: &'static str, status: &Status) -> RuntimeError {
    RuntimeError { operation, kind: kind(status), message: status.message().to_owned() }
}

/// The same in the words that upstream shows for image calls: with the code, but for a pull whose failure has none.
fn image_failure(operation: &'static str, status: &Status) -> RuntimeError {
    let message = match status.code() {
        Code::Unknown if operation == "pull_image" => return failure(operation, status),
        Code::Cancelled => format!("rpc error: code = Canceled desc = {}", status.message()),
        code => format!("rpc error: code = {code:?} desc = {}", status.message()),
    };
    RuntimeError { operation, kind: kind(status), message }
}

fn kind(status: &Status) -> RuntimeErrorKind {
    // Only failures of our side of the connection have a source; tonic gives them codes of all sorts.
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

/// Runtimes have no code for this: containerd holds names while a call that was cut off is rolled back, and
/// refuses to touch containers that are being started or removed.
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
    fn codes_become_the_kinds_that_callers_tell_apart() {
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
            let error = failure("start_container", &Status::new(code, "why"));
            assert_eq!((error.kind, error.message.as_str()), (expected, "why"));
        }
    }

    #[test]
    fn every_deadline_can_be_told() {
        for limit in [Duration::from_nanos(1), Duration::from_secs(u64::MAX)] {
            assert!(request((), Deadline::In(limit)).metadata().contains_key("grpc-timeout"));
        }
    }

    #[test]
    fn failed_image_calls_name_their_code_as_upstream_does() {
        for (operation, code, expected) in [
            ("pull_image", Code::Unknown, "why"),
            ("pull_image", Code::NotFound, "rpc error: code = NotFound desc = why"),
            ("pull_image", Code::Cancelled, "rpc error: code = Canceled desc = why"),
            ("image_status", Code::Unknown, "rpc error: code = Unknown desc = why"),
        ] {
            assert_eq!(image_failure(operation, &Status::new(code, "why")).message, expected);
        }
    }

    #[test]
    fn failures_can_be_told_as_a_client_in_go_does() {
        for (code, expected) in [
            (Code::Unknown, "rpc error: code = Unknown desc = why"),
            (Code::DeadlineExceeded, "rpc error: code = DeadlineExceeded desc = why"),
            (Code::ResourceExhausted, "rpc error: code = ResourceExhausted desc = why"),
        ] {
            assert_eq!(failure("run_podsandbox", &Status::new(code, "why")).grpc_text(), expected);
        }
    }

    #[test]
    fn what_an_earlier_call_still_holds_is_busy() {
        for message in [
            "failed to reserve sandbox name \"a_default_u_0\": name \"a_default_u_0\" is reserved for \"1f\"",
            "failed to set removing state for container \"1f\": container is in starting state, can't be removed",
        ] {
            assert_eq!(kind(&Status::new(Code::Unknown, message)), RuntimeErrorKind::Busy, "{message}");
        }
        assert_eq!(kind(&Status::new(Code::Unknown, "exec format error")), RuntimeErrorKind::Failed);
    }

    #[test]
    fn a_failed_connection_is_unavailable_whatever_its_code() {
        let broken = Status::from_error(std::io::Error::other("broken pipe").into());
        assert_eq!(kind(&broken), RuntimeErrorKind::Unavailable);
        let expired = Status::from_error(TimeoutExpired(()).into());
        assert_eq!(kind(&expired), RuntimeErrorKind::DeadlineExceeded);
    }
}
