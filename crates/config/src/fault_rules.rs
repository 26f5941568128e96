//! The file of `--podward-faults`: faults that the agent injects into its calls to the container runtime.

use std::path::Path;
use std::time::Duration;

use document::FieldPath;
use serde::Deserialize;
use values::duration::GoDuration;

use crate::files;
use crate::problem::{LoadError, Problem};

/// One fault and the calls that it applies to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultSettings {
    /// Name of the call, such as `RunPodSandbox`; all calls if absent.
    pub call: Option<String>,
    /// UID of a pod or `namespace/name`; all pods if absent.
    pub pod: Option<String>,
    /// Matching calls that are not hit at first.
    #[serde(default)]
    pub skip: u64,
    /// The largest number of calls that are hit.
    pub count: Option<u64>,
    /// Probability of a hit.
    #[serde(default = "always")]
    pub percent: u8,
    pub fault: FaultKind,
}

/// The fault of a call. Codes are names of gRPC codes, such as `Unavailable`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FaultKind {
    Delay(GoDuration),
    Error {
        code: String,
        #[serde(default = "injected")]
        message: String,
    },
    Hang,
    LoseAnswer {
        code: String,
    },
    CutStream {
        after: u64,
    },
    DuplicateMessages,
    ReorderMessages,
}

#[derive(Deserialize)]
struct FaultFile {
    rules: Vec<FaultSettings>,
}

fn always() -> u8 {
    100
}

fn injected() -> String {
    "injected".to_owned()
}

impl FaultKind {
    /// The gRPC code of a call that fails.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Error { code, .. } | Self::LoseAnswer { code } => Some(code),
            Self::Delay(_)
            | Self::Hang
            | Self::CutStream { .. }
            | Self::DuplicateMessages
            | Self::ReorderMessages => None,
        }
    }
}

/// Reads the rules. `calls` and `codes` are the known names.
///
/// # Errors
/// With all problems of the file, if it cannot be read or has invalid values.
pub fn fault_rules(path: &Path, calls: &[&str], codes: &[&str]) -> Result<Vec<FaultSettings>, LoadError> {
    let text = files::read(path)?;
    let invalid = |problems| LoadError::Invalid { problems };
    let mut documents = document::parse(&text).map_err(|error| {
        invalid(vec![Problem::in_file(path, Some(error.position), FieldPath::root(), error.reason)])
    })?;
    let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
        let reason = "the file must contain exactly one document, with the field \"rules\"";
        return Err(invalid(vec![Problem::in_file(path, None, FieldPath::root(), reason)]));
    };
    let file: FaultFile = document.decode_strict().map_err(|errors| {
        invalid(errors.into_iter().map(|error| Problem::of_field(path, error)).collect())
    })?;
    let mut problems = Vec::new();
    for (index, rule) in file.rules.iter().enumerate() {
        let field = FieldPath::root().key("rules").index(index);
        for (name, reason) in problems_of(rule, calls, codes) {
            let field = field.clone().key(name);
            problems.push(Problem::in_file(path, document.position(&field), field, reason));
        }
    }
    if problems.is_empty() { Ok(file.rules) } else { Err(invalid(problems)) }
}

fn problems_of(rule: &FaultSettings, calls: &[&str], codes: &[&str]) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if let Some(call) = rule.call.as_deref().filter(|call| !calls.contains(call)) {
        problems.push(("call", format!("{call:?} is no call of the CRI; use one of {}", calls.join(", "))));
    }
    if rule.pod.as_deref() == Some("") {
        problems.push(("pod", "must not be empty; omit the field for all pods".to_owned()));
    }
    if !(1..=100).contains(&rule.percent) {
        problems.push(("percent", format!("{} must be from 1 to 100", rule.percent)));
    }
    if let Some(code) = rule.fault.code().filter(|code| !codes.contains(code)) {
        problems.push(("fault", format!("{code:?} is no gRPC code; use one of {}", codes.join(", "))));
    }
    if let FaultKind::Delay(delay) = &rule.fault
        && delay.to_std() == Duration::ZERO
    {
        problems.push(("fault", "the delay must be positive".to_owned()));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<FaultSettings>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("faults.yaml");
        std::fs::write(&path, text).unwrap();
        fault_rules(&path, &["RunPodSandbox", "Version"], &["Unavailable"])
            .map_err(|error| error.to_string().replace(&format!("{}: ", path.display()), ""))
    }

    #[test]
    fn reads_every_kind_of_fault() {
        let text = "rules:\n\
            - {call: RunPodSandbox, pod: default/web, percent: 20, fault: {error: {code: Unavailable}}}\n\
            - {fault: hang, skip: 1, count: 2}\n\
            - {fault: {delay: 1.5s}}\n\
            - {fault: {loseAnswer: {code: Unavailable}}}\n\
            - {fault: {cutStream: {after: 3}}}\n\
            - {fault: duplicateMessages}\n\
            - {fault: reorderMessages}\n";
        let rules = read(text).unwrap();
        assert_eq!(rules.len(), 7);
        assert_eq!((rules[0].percent, rules[1].percent), (20, 100));
        assert_eq!(rules[2].fault, FaultKind::Delay(GoDuration::from_millis(1500)));
    }

    #[test]
    fn names_line_and_field_of_every_problem() {
        let text = "rules:\n\
            - {call: Run, fault: hang}\n\
            - {percent: 0, fault: {error: {code: Broken}}}\n";
        let error = read(text).unwrap_err();
        for expected in [
            "line 2: rules[0].call: \"Run\" is no call of the CRI; use one of RunPodSandbox, Version",
            "line 3: rules[1].percent: 0 must be from 1 to 100",
            "line 3: rules[1].fault: \"Broken\" is no gRPC code; use one of Unavailable",
        ] {
            assert!(error.contains(expected), "{error}");
        }
        let error = read("rules:\n- {fault: hang, chance: 3}\n").unwrap_err();
        assert!(error.contains("line 2: rules[0].chance"), "{error}");
    }
}
