//! Expansion of volumes on this node, and the status of their claims.

use model::{CsiSize, Timestamp};
use serde_json::{Value, json};

/// Claim conditions about expansion; other conditions are not changed.
const CONDITIONS: [&str; 4] =
    ["FileSystemResizePending", "Resizing", "ControllerResizeError", "NodeResizeError"];

/// The decision about the size of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// No expansion now; check again later.
    Nothing,
    /// The volume has its size.
    Done,
    /// Report that a read-only volume is not expanded.
    ReadOnly,
    /// Call the driver.
    Expand(Expansion),
}

/// A request to expand a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Requested size in bytes.
    pub bytes: i64,
    /// Requested size as text, for the claim.
    pub text: String,
    /// Whether the controller tracks the progress in the claim.
    pub is_followed: bool,
    /// Whether the claim does not show the new size yet.
    pub claim_waits: bool,
}

/// `here` is the known size of the volume on this node; without it, the size of the claim is used.
pub fn growth(size: &CsiSize, read_only: bool, here: Option<i64>) -> Growth {
    if size.requested <= here.unwrap_or(size.known) {
        return Growth::Nothing;
    }
    if read_only {
        return Growth::ReadOnly;
    }
    if size.state.is_empty() && size.allocated.is_none() {
        // The controller does not report its progress.
        return Growth::Expand(Expansion {
            bytes: size.requested,
            text: size.wanted_text.clone(),
            is_followed: false,
            claim_waits: size.known < size.requested,
        });
    }
    let (bytes, text) = size.allocated.clone().unwrap_or_default();
    let claim_knows = size.known >= bytes && size.state.is_empty();
    let is_ours = matches!(size.state.as_str(), "NodeResizePending" | "NodeResizeInProgress");
    if is_ours || (claim_knows && size.grows_on_each_node) {
        return Growth::Expand(Expansion { bytes, text, is_followed: true, claim_waits: !claim_knows });
    }
    if claim_knows { Growth::Done } else { Growth::Nothing }
}

/// Kinds of failed expansions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpansionFailure {
    /// Retried.
    Passing,
    /// Not retried on this node; does not block pods.
    InUse,
    /// The size can never be reached.
    Infeasible,
    /// The driver does not expand volumes on nodes.
    Unsupported,
}

impl ExpansionFailure {
    /// By the name of the gRPC code.
    pub fn of(code: &str) -> Self {
        match code {
            "FailedPrecondition" => Self::InUse,
            "InvalidArgument" | "OutOfRange" | "NotFound" => Self::Infeasible,
            "Unimplemented" => Self::Unsupported,
            _ => Self::Passing,
        }
    }

    /// The message, including the driver's.
    pub fn message(self, words: &str) -> String {
        let colon = if self == Self::Infeasible { "" } else { ": " };
        format!("Expander.NodeExpand failed to expand the volume {colon}{words}")
    }
}

/// Claim status patch: expansion in progress.
pub fn begun() -> Value {
    json!({"status": {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}})
}

/// Claim status patch: expansion finished.
pub fn grown(text: &str) -> Value {
    let gone: Vec<Value> =
        CONDITIONS.iter().map(|condition| json!({"$patch": "delete", "type": condition})).collect();
    json!({"status": {
        "capacity": {"storage": text},
        "conditions": gone,
        "allocatedResourceStatuses": {"storage": null},
    }})
}

/// Claim status patch: expansion failed. A size that failed for good, or that is no longer requested, is returned to the
/// controller.
pub fn not_grown(refusal: ExpansionFailure, is_stale: bool, message: &str, now: Timestamp) -> Value {
    let condition = json!({
        "type": "NodeResizeError",
        "status": "True",
        "lastTransitionTime": now.to_api_time(),
        "message": format!("failed to expand pvc with {message}"),
    });
    let mut status = json!({"conditions": [condition]});
    if refusal == ExpansionFailure::Infeasible || is_stale {
        status["allocatedResourceStatuses"] = json!({"storage": "NodeResizeInfeasible"});
    }
    json!({"status": status})
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn size(known: i64, allocated: Option<i64>, state: &str) -> CsiSize {
        CsiSize {
            namespace: "n".into(),
            claim: "c".into(),
            uid: "u".into(),
            requested: 3 * GIB,
            known: known * GIB,
            wanted_text: "3Gi".into(),
            asked: 3 * GIB,
            allocated: allocated.map(|allocated| (allocated * GIB, format!("{allocated}Gi"))),
            state: state.into(),
            grows_on_each_node: false,
        }
    }

    fn expand(gib: i64, is_followed: bool, claim_waits: bool) -> Growth {
        let text = format!("{gib}Gi");
        Growth::Expand(Expansion { bytes: gib * GIB, text, is_followed, claim_waits })
    }

    #[test]
    fn expands_volume_as_the_controller_requests() {
        let pending = "NodeResizePending";
        for (size, here, expected) in [
            (size(3, None, ""), None, Growth::Nothing),
            (size(1, None, ""), None, expand(3, false, true)),
            (size(1, None, ""), Some(3), Growth::Nothing),
            (size(3, None, ""), Some(1), expand(3, false, false)),
            // The claim was changed meanwhile: the allocated size counts.
            (size(1, Some(2), pending), None, expand(2, true, true)),
            (size(1, Some(3), "NodeResizeInProgress"), None, expand(3, true, true)),
            (size(1, Some(3), "NodeResizeInfeasible"), None, Growth::Nothing),
            (size(1, Some(3), "ControllerResizeInProgress"), None, Growth::Nothing),
            (size(3, Some(3), ""), Some(1), Growth::Done),
        ] {
            let here = here.map(|here: i64| here * GIB);
            assert_eq!(growth(&size, false, here), expected, "{size:?} {here:?}");
        }
        assert_eq!(growth(&size(1, None, ""), true, None), Growth::ReadOnly);
        assert_eq!(growth(&size(3, None, ""), true, None), Growth::Nothing);
    }

    #[test]
    fn shared_volume_is_expanded_on_each_node() {
        let shared = CsiSize { grows_on_each_node: true, ..size(3, Some(3), "") };
        assert_eq!(growth(&shared, false, Some(GIB)), expand(3, true, false));
        assert_eq!(growth(&shared, false, Some(3 * GIB)), Growth::Nothing);
        assert_eq!(growth(&shared, false, None), Growth::Nothing, "it was mounted with its new size");
    }

    #[test]
    fn claim_patch_keeps_other_conditions() {
        let patch = grown("3Gi");
        assert_eq!(patch["status"]["capacity"]["storage"], "3Gi");
        let gone = patch["status"]["conditions"].as_array().unwrap();
        assert!(gone.iter().all(|condition| condition["$patch"] == "delete"));
        assert!(!gone.iter().any(|condition| condition["type"] == "ModifyingVolume"));
    }

    #[test]
    fn claim_patch_reports_expansion_failure() {
        let now = Timestamp::from_secs(1);
        for (code, is_stale, state) in [
            ("Internal", false, None),
            ("Internal", true, Some("NodeResizeInfeasible")),
            ("InvalidArgument", false, Some("NodeResizeInfeasible")),
            ("FailedPrecondition", false, None),
        ] {
            let refusal = ExpansionFailure::of(code);
            let patch = not_grown(refusal, is_stale, &refusal.message("no"), now);
            let condition = &patch["status"]["conditions"][0];
            assert_eq!(condition["type"], "NodeResizeError");
            let words = condition["message"].as_str().unwrap();
            assert!(
                words.starts_with(
                    "failed to expand pvc with Expander.NodeExpand failed to expand the volume "
                )
            );
            assert_eq!(patch["status"]["allocatedResourceStatuses"]["storage"].as_str(), state, "{code}");
        }
    }
}
