//! Whether a new pod may run here: a list of checks, the first refusal counts.

use std::sync::Arc;

use model::{Pod, Rejection};

/// What the checks may look at besides the pod.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Pods that run or will run here, the new one left out.
    pub others: Vec<Arc<Pod>>,
}

/// One check; it looks and answers, nothing else.
pub type Check = fn(&Pod, &Node) -> Result<(), Rejection>;

/// Runs the checks in order.
///
/// # Errors
/// The first check that refuses says why.
pub fn admit(checks: &[Check], pod: &Pod, node: &Node) -> Result<(), Rejection> {
    checks.iter().try_for_each(|check| check(pod, node))
}

#[cfg(test)]
mod tests {
    use model::PodSource;

    use super::*;

    fn refuse(_: &Pod, _: &Node) -> Result<(), Rejection> {
        Err(Rejection { reason: "First".into(), message: "no".into() })
    }

    fn refuse_too(_: &Pod, _: &Node) -> Result<(), Rejection> {
        Err(Rejection { reason: "Second".into(), message: "no".into() })
    }

    #[test]
    fn the_first_refusal_counts_and_no_check_means_yes() {
        let mut object = k8s_openapi::api::core::v1::Pod::default();
        object.metadata.uid = Some("u".into());
        object.metadata.name = Some("n".into());
        object.spec = Some(Default::default());
        let pod = Pod::from_object(object, PodSource::File).unwrap();
        assert_eq!(admit(&[refuse, refuse_too], &pod, &Node::default()).unwrap_err().reason, "First");
        assert!(admit(&[], &pod, &Node::default()).is_ok());
    }
}
