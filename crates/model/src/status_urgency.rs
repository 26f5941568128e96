/// How soon a change of a pod's status must reach the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatusUrgency {
    /// Readiness changed or the pod ended: traffic and controllers wait for it. Such writes have their own API client
    /// and come first.
    Urgent,
    /// The phase changed: written at once.
    Prompt,
    /// Any other change: written after a short debounce, because a starting pod changes often.
    Deferred,
}
