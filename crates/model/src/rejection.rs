use std::borrow::Cow;

/// Why the agent ended a pod, or did not start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub kind: RejectionKind,
    /// Reason of the pod's status, such as `OutOfpods`.
    pub reason: String,
    /// Text for people. The status shows it as [`Rejection::status_message`].
    pub message: String,
}

/// What led to a [`Rejection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectionKind {
    /// The pod was not admitted, so its containers never ran.
    Admission,
    /// `activeDeadlineSeconds` has passed.
    Deadline,
    /// A critical pod needed the resources.
    Preemption,
    /// The node ran short of a resource.
    NodePressure,
    /// The pod exceeded its own limit of local storage.
    StorageLimit,
    NodeShutdown,
}

impl Rejection {
    /// Start of the status message of a pod that was not admitted. Same as upstream.
    const NOT_ADMITTED: &str = "Pod was rejected: ";

    pub fn at_admission(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: RejectionKind::Admission, reason: reason.into(), message: message.into() }
    }

    /// The message of the pod's status.
    pub fn status_message(&self) -> Cow<'_, str> {
        match self.kind {
            RejectionKind::Admission => Cow::Owned(format!("{}{}", Self::NOT_ADMITTED, self.message)),
            RejectionKind::Deadline
            | RejectionKind::Preemption
            | RejectionKind::NodePressure
            | RejectionKind::StorageLimit
            | RejectionKind::NodeShutdown => Cow::Borrowed(&self.message),
        }
    }

    /// Whether a status from the API server, where the kind is lost, is that of a pod that was not admitted.
    pub fn is_at_admission(status_message: &str) -> bool {
        status_message.starts_with(Self::NOT_ADMITTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_message_shows_admission_rejections_as_upstream_does() {
        let refused = Rejection::at_admission("OutOfpods", "no room");
        assert_eq!(refused.status_message(), "Pod was rejected: no room");
        assert!(Rejection::is_at_admission(&refused.status_message()));
        let evicted = Rejection { kind: RejectionKind::NodePressure, ..refused };
        assert_eq!(evicted.status_message(), "no room");
        assert!(!Rejection::is_at_admission(&evicted.status_message()));
    }
}
