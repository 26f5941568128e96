//! Whether and how a volume of a driver grows on this node, and what its claim is told.

use model::{CsiSize, Timestamp};
use serde_json::{Value, json};

/// Conditions of a claim that tell of growing. Others are not ours.
const CONDITIONS: [&str; 4] =
    ["FileSystemResizePending", "Resizing", "ControllerResizeError", "NodeResizeError"];

/// What is to be done about the size of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing, and perhaps later.
    Nothing,
    /// Nothing: the volume has its size.
    Done,
    /// Users are told that what is mounted read-only does not grow.
    ReadOnly,
    /// The driver is asked.
    Expand(Expansion),
}

/// What a driver is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expansion {
    /// Bytes that the volume is to have.
    pub bytes: i64,
    /// The same as the claim is told.
    pub text: String,
    /// The controller follows how far this is.
    pub is_followed: bool,
    /// The claim does not know of the new size.
    pub claim_waits: bool,
}

/// Decides. `here` is the size that the volume is known to have on this node; that of the claim counts for one that was
/// not seen before.
#[must_use]
pub fn growth(size: &CsiSize, read_only: bool, here: Option<i64>) -> Growth {
    if size.wanted <= here.unwrap_or(size.known) {
        return Growth::Nothing;
    }
    if read_only {
        return Growth::ReadOnly;
    }
    if size.state.is_empty() && size.granted.is_none() {
        // A controller that does not say how far it is.
        return Growth::Expand(Expansion {
            bytes: size.wanted,
            text: size.wanted_text.clone(),
            is_followed: false,
            claim_waits: size.known < size.wanted,
        });
    }
    let (bytes, text) = size.granted.clone().unwrap_or_default();
    let claim_knows = size.known >= bytes && size.state.is_empty();
    let is_ours = matches!(size.state.as_str(), "NodeResizePending" | "NodeResizeInProgress");
    if is_ours || (claim_knows && size.grows_on_each_node) {
        return Growth::Expand(Expansion { bytes, text, is_followed: true, claim_waits: !claim_knows });
    }
    if claim_knows { Growth::Done } else { Growth::Nothing }
}

/// What a failure to grow means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is tried again.
    Passing,
    /// It is not tried again on this node, and keeps no pod from starting.
    InUse,
    /// The size will never do.
    Infeasible,
    /// The driver does not grow volumes on nodes.
    Unsupported,
}

impl Refusal {
    /// By gRPC's word for the code.
    #[must_use]
    pub fn of(code: &str) -> Self {
        match code {
            "FailedPrecondition" => Self::InUse,
            "InvalidArgument" | "OutOfRange" | "NotFound" => Self::Infeasible,
            "Unimplemented" => Self::Unsupported,
            _ => Self::Passing,
        }
    }

    /// The message, with the driver's words.
    #[must_use]
    pub fn message(self, words: &str) -> String {
        let colon = if self == Self::Infeasible { "" } else { ": " };
        format!("Expander.NodeExpand failed to expand the volume {colon}{words}")
    }
}

/// Tells the claim that its volume is being grown.
#[must_use]
pub fn begun() -> Value {
    json!({"status": {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}})
}

/// Tells the claim that its volume has grown.
#[must_use]
pub fn grown(text: &str) -> Value {
    let gone: Vec<Value> =
        CONDITIONS.iter().map(|condition| json!({"$patch": "delete", "type": condition})).collect();
    json!({"status": {
        "capacity": {"storage": text},
        "conditions": gone,
        "allocatedResourceStatuses": {"storage": null},
    }})
}

/// Tells the claim that its volume has not grown. A size that failed for good, or one that nobody asks for any more after
/// a failure, is given back to the controller.
#[must_use]
pub fn not_grown(refusal: Refusal, is_stale: bool, message: &str, now: Timestamp) -> Value {
    let condition = json!({
        "type": "NodeResizeError",
        "status": "True",
        "lastTransitionTime": now.to_api_time(),
        "message": format!("failed to expand pvc with {message}"),
    });
    let mut status = json!({"conditions": [condition]});
    if refusal == Refusal::Infeasible || is_stale {
        status["allocatedResourceStatuses"] = json!({"storage": "NodeResizeInfeasible"});
    }
    json!({"status": status})
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn size(known: i64, granted: Option<i64>, state: &str) -> CsiSize {
        CsiSize {
            namespace: "n".into(),
            claim: "c".into(),
            uid: "u".into(),
            wanted: 3 * GIB,
            known: known * GIB,
            wanted_text: "3Gi".into(),
            asked: 3 * GIB,
            granted: granted.map(|granted| (granted * GIB, format!("{granted}Gi"))),
            state: state.into(),
            grows_on_each_node: false,
        }
    }

    fn expand(gib: i64, is_followed: bool, claim_waits: bool) -> Growth {
        let text = format!("{gib}Gi");
        Growth::Expand(Expansion { bytes: gib * GIB, text, is_followed, claim_waits })
    }

    #[test]
    fn a_volume_grows_as_its_controller_says() {
        let pending = "NodeResizePending";
        for (size, here, expected) in [
            (size(3, None, ""), None, Growth::Nothing),
            (size(1, None, ""), None, expand(3, false, true)),
            (size(1, None, ""), Some(3), Growth::Nothing),
            (size(3, None, ""), Some(1), expand(3, false, false)),
            // The claim was changed meanwhile: what was granted counts.
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
    fn a_shared_volume_grows_on_each_node_though_the_claim_knows_already() {
        let shared = CsiSize { grows_on_each_node: true, ..size(3, Some(3), "") };
        assert_eq!(growth(&shared, false, Some(GIB)), expand(3, true, false));
        assert_eq!(growth(&shared, false, Some(3 * GIB)), Growth::Nothing);
        assert_eq!(growth(&shared, false, None), Growth::Nothing, "it was mounted with its new size");
    }

    #[test]
    fn a_claim_keeps_conditions_that_tell_of_other_things() {
        let patch = grown("3Gi");
        assert_eq!(patch["status"]["capacity"]["storage"], "3Gi");
        let gone = patch["status"]["conditions"].as_array().unwrap();
        assert!(gone.iter().all(|condition| condition["$patch"] == "delete"));
        assert!(!gone.iter().any(|condition| condition["type"] == "ModifyingVolume"));
    }

    #[test]
    fn a_claim_is_told_of_a_failure() {
        let now = Timestamp::from_secs(1);
        for (code, is_stale, state) in [
            ("Internal", false, None),
            ("Internal", true, Some("NodeResizeInfeasible")),
            ("InvalidArgument", false, Some("NodeResizeInfeasible")),
            ("FailedPrecondition", false, None),
        ] {
            let refusal = Refusal::of(code);
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
