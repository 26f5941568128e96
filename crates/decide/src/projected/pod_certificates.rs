//! Pod certificates, from the first request to the refresh.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PodCertificateProjection, Volume};
use model::{CertificateOutcome, CertificateRequest, PodCertificate, Timestamp};

use super::pem;

/// A request that has been missing for this long counts as deleted.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);
/// How late a refresh may be before a warning.
const OVERDUE_AFTER: Duration = Duration::from_secs(600);

const NOT_ISSUED: &str = "credential bundle is not issued yet";

/// The state of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CertificateState {
    /// Not requested yet.
    #[default]
    Initial,
    Waiting(PendingRequest),
    /// Denied for good.
    Denied {
        reason: String,
        message: String,
    },
    /// Failed for good.
    Failed {
        reason: String,
        message: String,
    },
    Fresh(IssuedCertificate),
    /// Issued, and the refresh is requested.
    Refreshing {
        held: IssuedCertificate,
        asked: PendingRequest,
    },
}

/// A pending request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    request: CertificateRequest,
    abandoned_at: Timestamp,
}

/// An issued certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    certificate: PodCertificate,
    refresh_at: Timestamp,
    not_after: Timestamp,
    told_overdue: bool,
    told_expired: bool,
}

/// The next action for a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Nothing,
    /// Create a request.
    Request,
    /// Read the state of the request.
    Look(String),
}

/// Reason and message of a warning event.
pub type Warning = (&'static str, String);

impl CertificateState {
    pub fn need(&self, now: Timestamp) -> Need {
        match self {
            Self::Initial => Need::Request,
            Self::Waiting(asked) | Self::Refreshing { asked, .. } => Need::Look(asked.request.name.clone()),
            Self::Fresh(held) if now >= held.refresh_at => Need::Request,
            Self::Fresh(_) | Self::Denied { .. } | Self::Failed { .. } => Need::Nothing,
        }
    }

    /// When the next action is due, if that is known.
    pub fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Fresh(held) => Some(held.refresh_at),
            Self::Initial
            | Self::Waiting(_)
            | Self::Denied { .. }
            | Self::Failed { .. }
            | Self::Refreshing { .. } => None,
        }
    }

    /// A request was created; `jitter` spreads the refreshes of many pods.
    #[must_use]
    pub fn requested(self, request: CertificateRequest, jitter: Duration) -> Self {
        let abandoned_at = request.created_at.after(ABANDONED_AFTER).after(jitter);
        let asked = PendingRequest { request, abandoned_at };
        match self {
            Self::Fresh(held) | Self::Refreshing { held, .. } => Self::Refreshing { held, asked },
            Self::Initial | Self::Waiting(_) | Self::Denied { .. } | Self::Failed { .. } => {
                Self::Waiting(asked)
            }
        }
    }

    /// The state of the request was read; `None` when it does not exist. `name` includes the namespace.
    #[must_use]
    pub fn looked_at(
        self,
        outcome: Option<CertificateOutcome>,
        name: &str,
        now: Timestamp,
        jitter: Duration,
    ) -> (Self, Option<Warning>) {
        let (held, asked) = match self {
            Self::Waiting(asked) => (None, asked),
            Self::Refreshing { held, asked } => (Some(held), asked),
            other => return (other, None),
        };
        let stays = |held: Option<IssuedCertificate>, asked: PendingRequest| match held {
            Some(held) => Self::Refreshing { held, asked },
            None => Self::Waiting(asked),
        };
        match outcome {
            None if now > asked.abandoned_at => (held.map_or(Self::Initial, Self::Fresh), None),
            None | Some(CertificateOutcome::Pending) => (stays(held, asked), None),
            Some(CertificateOutcome::Denied { reason, message }) => {
                let text = format!(
                    "PodCertificateRequest {name} was denied, reason={reason:?}, message={message:?}"
                );
                (Self::Denied { reason, message }, Some(("Denied", text)))
            }
            Some(CertificateOutcome::Failed { reason, message }) => {
                let text =
                    format!("PodCertificateRequest {name} failed, reason={reason:?}, message={message:?}");
                (Self::Failed { reason, message }, Some(("Failed", text)))
            }
            Some(CertificateOutcome::Issued { chain, begin_refresh_at, not_after }) => {
                let certificate = PodCertificate {
                    key: asked.request.key,
                    chain: pem::certificates(&chain).map(|body| pem::certificate(&body)).collect(),
                };
                let issued = IssuedCertificate {
                    certificate,
                    refresh_at: begin_refresh_at.after(jitter),
                    not_after,
                    told_overdue: false,
                    told_expired: false,
                };
                (Self::Fresh(issued), None)
            }
        }
    }

    /// Warnings about a late refresh, each returned once.
    pub fn overdue_warnings(&mut self, now: Timestamp) -> Vec<Warning> {
        let (Self::Fresh(held) | Self::Refreshing { held, .. }) = self else { return Vec::new() };
        let mut warnings = Vec::new();
        if now > held.refresh_at.after(OVERDUE_AFTER) && !std::mem::replace(&mut held.told_overdue, true) {
            warnings.push(("CertificateOverdueForRefresh", "PodCertificate refresh overdue".to_owned()));
        }
        if now > held.not_after && !std::mem::replace(&mut held.told_expired, true) {
            warnings.push(("CertificateExpired", "PodCertificate expired".to_owned()));
        }
        warnings
    }

    /// The key and the certificates.
    ///
    /// # Errors
    /// Upstream's message when there are none.
    pub fn certificate(&self) -> Result<PodCertificate, String> {
        match self {
            Self::Initial | Self::Waiting(_) => Err(NOT_ISSUED.to_owned()),
            Self::Denied { reason, message } => Err(format!(
                "PodCertificateRequest was permanently denied: reason={reason:?} message={message:?}"
            )),
            Self::Failed { reason, message } => Err(format!(
                "PodCertificateRequest was permanently failed: reason={reason:?} message={message:?}"
            )),
            Self::Fresh(held) | Self::Refreshing { held, .. } => Ok(held.certificate.clone()),
        }
    }

    /// The label value in `kubelet_podcertificate_states`.
    pub fn word(&self, now: Timestamp) -> &'static str {
        match self {
            Self::Initial | Self::Waiting(_) => "not_yet_issued",
            Self::Denied { .. } => "denied",
            Self::Failed { .. } => "failed",
            Self::Fresh(held) | Self::Refreshing { held, .. } if now > held.not_after => "expired",
            Self::Fresh(held) | Self::Refreshing { held, .. }
                if now > held.refresh_at.after(OVERDUE_AFTER) =>
            {
                "overdue_for_refresh"
            }
            Self::Fresh(_) | Self::Refreshing { .. } => "fresh",
        }
    }
}

/// The projected certificate sources: volume, index among its sources, and source.
pub fn certificate_sources<'a>(
    volumes: impl IntoIterator<Item = &'a Volume>,
) -> impl Iterator<Item = (&'a str, usize, &'a PodCertificateProjection)> {
    volumes.into_iter().flat_map(|volume| {
        let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
        let sources = sources.enumerate();
        sources.filter_map(|(place, source)| {
            Some((volume.name.as_str(), place, source.pod_certificate.as_ref()?))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000 + seconds)
    }

    fn request(name: &str) -> CertificateRequest {
        CertificateRequest { name: name.to_owned(), created_at: at(0), key: format!("key of {name}") }
    }

    fn issued() -> Option<CertificateOutcome> {
        let (begin_refresh_at, not_after) = (at(0).after(HOUR), at(0).after(HOUR * 2));
        Some(CertificateOutcome::Issued { chain: format!("x\n{CHAIN}y"), begin_refresh_at, not_after })
    }

    fn looked(state: CertificateState, outcome: Option<CertificateOutcome>, now: i64) -> CertificateState {
        state.looked_at(outcome, "ns/r", at(now), Duration::ZERO).0
    }

    fn fresh() -> CertificateState {
        looked(CertificateState::Initial.requested(request("r1"), Duration::ZERO), issued(), 1)
    }

    #[test]
    fn requests_certificate_and_polls_until_issued() {
        let state = CertificateState::Initial;
        assert_eq!(state.need(at(0)), Need::Request);
        assert_eq!(state.certificate().unwrap_err(), "credential bundle is not issued yet");
        let state = state.requested(request("r1"), Duration::ZERO);
        assert_eq!((state.need(at(1)), state.word(at(1))), (Need::Look("r1".into()), "not_yet_issued"));
        let state = looked(state, Some(CertificateOutcome::Pending), 1);
        let state = looked(state, issued(), 2);
        assert_eq!((state.need(at(2)), state.due_at()), (Need::Nothing, Some(at(3600))));
        let certificate = state.certificate().unwrap();
        assert_eq!((certificate.key.as_str(), certificate.chain.as_str()), ("key of r1", CHAIN));
    }

    #[test]
    fn recreates_missing_request_after_timeout() {
        let waiting = CertificateState::Initial.requested(request("r1"), Duration::from_secs(60));
        assert_eq!(looked(waiting.clone(), None, 660).need(at(660)), Need::Look("r1".into()));
        assert_eq!(looked(waiting, None, 661), CertificateState::Initial);
        let refreshing = fresh().requested(request("r2"), Duration::ZERO);
        assert_eq!(looked(refreshing, None, 601), fresh());
    }

    #[test]
    fn denials_are_final_and_reported() {
        let word = || ("Why".to_owned(), "because".to_owned());
        let ((reason, message), (other, more)) = (word(), word());
        for (outcome, event, text, word) in [
            (CertificateOutcome::Denied { reason, message }, "Denied", "was denied", "denied"),
            (CertificateOutcome::Failed { reason: other, message: more }, "Failed", "failed", "failed"),
        ] {
            let waiting = CertificateState::Initial.requested(request("r1"), Duration::ZERO);
            let (state, reported) = waiting.looked_at(Some(outcome), "ns/r1", at(1), Duration::ZERO);
            let expected = format!("PodCertificateRequest ns/r1 {text}, reason=\"Why\", message=\"because\"");
            assert_eq!(reported, Some((event, expected)));
            assert_eq!((state.need(at(9999)), state.word(at(9999))), (Need::Nothing, word));
            assert!(state.certificate().unwrap_err().contains("reason=\"Why\" message=\"because\""));
        }
    }

    #[test]
    fn refreshes_certificate_when_due() {
        let state = fresh();
        assert_eq!((state.need(at(3599)), state.need(at(3600))), (Need::Nothing, Need::Request));
        let state = state.requested(request("r2"), Duration::ZERO);
        assert_eq!(state.certificate().unwrap().key, "key of r1");
        let state = looked(state, issued(), 3601);
        assert_eq!(state.certificate().unwrap().key, "key of r2");
    }

    #[test]
    fn overdue_refresh_is_reported_once() {
        let mut state = fresh();
        assert_eq!((state.overdue_warnings(at(4200)).len(), state.word(at(4200))), (0, "fresh"));
        assert_eq!(
            state.overdue_warnings(at(4201)),
            [("CertificateOverdueForRefresh", "PodCertificate refresh overdue".to_owned())]
        );
        assert_eq!(state.word(at(4201)), "overdue_for_refresh");
        let mut state = state.requested(request("r2"), Duration::ZERO);
        assert_eq!(
            state.overdue_warnings(at(7201)),
            [("CertificateExpired", "PodCertificate expired".to_owned())]
        );
        assert_eq!((state.overdue_warnings(at(9999)).len(), state.word(at(7201))), (0, "expired"));
    }
}
