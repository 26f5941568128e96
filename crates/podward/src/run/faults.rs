//! The faults of `--podward-faults`.

use std::sync::Arc;

use config::{FaultKind, FaultSettings, LoadedConfig, fault_rules};
use cri::faults::{CALLS, Fault, FaultRule, Faults};
use tonic::Code;

/// Names of the gRPC codes of a failed call.
const CODES: [(&str, Code); 16] = [
    ("Cancelled", Code::Cancelled),
    ("Unknown", Code::Unknown),
    ("InvalidArgument", Code::InvalidArgument),
    ("DeadlineExceeded", Code::DeadlineExceeded),
    ("NotFound", Code::NotFound),
    ("AlreadyExists", Code::AlreadyExists),
    ("PermissionDenied", Code::PermissionDenied),
    ("ResourceExhausted", Code::ResourceExhausted),
    ("FailedPrecondition", Code::FailedPrecondition),
    ("Aborted", Code::Aborted),
    ("OutOfRange", Code::OutOfRange),
    ("Unimplemented", Code::Unimplemented),
    ("Internal", Code::Internal),
    ("Unavailable", Code::Unavailable),
    ("DataLoss", Code::DataLoss),
    ("Unauthenticated", Code::Unauthenticated),
];

/// `None` without the flag. Read once: a change of the file takes effect with the next start.
///
/// # Errors
/// When the file cannot be read or is invalid.
pub(super) fn injected_faults(loaded: &LoadedConfig) -> anyhow::Result<Option<Arc<Faults>>> {
    let Some(path) = &loaded.flags.faults else { return Ok(None) };
    let codes = CODES.map(|(name, _)| name);
    let rules = fault_rules(path, &CALLS, &codes)?;
    tracing::warn!(file = %path.display(), rules = rules.len(), "injecting faults into calls to the container runtime");
    Ok(Some(Faults::new(rules.into_iter().map(rule).collect())))
}

fn rule(settings: FaultSettings) -> FaultRule {
    let FaultSettings { call, pod, skip, count, percent, fault } = settings;
    FaultRule { call, pod, skip, count, percent, fault: kind(fault) }
}

fn kind(fault: FaultKind) -> Fault {
    match fault {
        FaultKind::Delay(delay) => Fault::Delay(delay.to_std()),
        FaultKind::Error { code, message } => Fault::Error { code: grpc_code(&code), message },
        FaultKind::Hang => Fault::Hang,
        FaultKind::LoseAnswer { code } => Fault::LoseAnswer { code: grpc_code(&code) },
        FaultKind::CutStream { after } => Fault::CutStream { after },
        FaultKind::DuplicateMessages => Fault::DuplicateMessages,
        FaultKind::ReorderMessages => Fault::ReorderMessages,
    }
}

/// The name was checked when the file was read.
fn grpc_code(name: &str) -> Code {
    CODES.iter().find(|(known, _)| *known == name).map_or(Code::Unknown, |(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_grpc() {
        for (name, code) in CODES {
            assert_eq!(name, format!("{code:?}"));
        }
    }
}
