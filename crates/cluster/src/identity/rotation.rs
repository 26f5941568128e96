//! Decides when to renew a certificate and when to give up. Pure.

use std::time::Duration;

use model::Timestamp;
use timing::{BackoffPolicy, jitter, up_to};

use super::credential::{CertificateNames, Credential};

/// Time without a valid certificate, while the API server is reachable, after which the agent exits.
const MAX_TIME_WITHOUT_CERTIFICATE: Duration = Duration::from_secs(5 * 60);
const BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(2), Duration::from_secs(32)).with_jitter(0.1);

/// Returns when to renew a certificate: after 70 to 90 % of its lifetime, depending on `random` (0 to 1), so that nodes
/// that were set up together do not renew together.
pub(super) fn due_at(not_before: Timestamp, not_after: Timestamp, random: f64) -> Timestamp {
    let lifetime = not_after.since(not_before);
    not_before.after(lifetime.mul_f64(0.7)).after(up_to(lifetime.mul_f64(0.2), random))
}

/// Whether a certificate has all desired names. Additional ones do no harm.
pub(super) fn satisfies(credential: &Credential, desired: &CertificateNames) -> bool {
    let has = &credential.names;
    has.common_name == desired.common_name
        && desired.organizations.iter().all(|name| has.organizations.contains(name))
        && desired.dns.iter().all(|name| has.dns.contains(name))
        && desired.addresses.iter().all(|address| has.addresses.contains(address))
}

/// Returns the delay after a number of consecutive failures; half of the initial backoff if there were none.
pub(super) fn backoff_after(failures: u32, random: f64) -> Duration {
    if failures == 0 {
        return BACKOFF.initial / 2;
    }
    jitter(BACKOFF.delay_after(failures), BACKOFF.jitter, random)
}

/// Result of the last certificate request, as far as it concerns the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerHealth {
    /// No result yet, or the server itself fails.
    Unknown,
    /// The server is healthy and rejects the node's credentials.
    RejectsNode,
}

/// Whether to give up: no valid certificate for five minutes while the server is healthy. While the server is
/// unreachable, the agent keeps running its pods and retries.
pub(super) fn should_give_up(now: Timestamp, last_valid: Timestamp, health: ServerHealth) -> bool {
    health == ServerHealth::RejectsNode && now.since(last_valid) > MAX_TIME_WITHOUT_CERTIFICATE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::test_certificates::{Authority, issued};

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn is_due_between_70_and_90_percent_of_lifetime() {
        for (from, to, jitter, expected) in [
            (0, 1000, 0.0, 700),
            (0, 1000, 0.5, 800),
            (0, 1000, 1.0, 900),
            (5000, 6000, 1.0, 5900),
            (0, 1000, 7.0, 900),
            // An invalid period is due immediately.
            (1000, 0, 0.5, 1000),
        ] {
            let due = due_at(at(from), at(to), jitter).as_nanos() / 1_000_000;
            assert_eq!(due, expected * 1000, "{from} {to} {jitter}");
        }
    }

    #[test]
    fn backoff_doubles_up_to_the_maximum() {
        let seconds: Vec<u64> = (0..=7).map(|failures| backoff_after(failures, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(backoff_after(u32::MAX, 1.0), Duration::from_millis(35_200));
    }

    #[test]
    fn gives_up_only_if_the_server_is_healthy() {
        for (now, health, expected) in [
            (300, ServerHealth::RejectsNode, false),
            (301, ServerHealth::RejectsNode, true),
            (100_000, ServerHealth::Unknown, false),
        ] {
            assert_eq!(should_give_up(at(now), at(0), health), expected, "{now} {health:?}");
        }
    }

    #[test]
    fn accepts_certificates_with_additional_names() {
        let (certificate, key) = issued(&Authority::new(), "system:node:n", &["n", "10.0.0.1"], 0, 1);
        let credential = Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let names = |dns: &[&str], addresses: &[&str], common_name: &str| CertificateNames {
            common_name: common_name.to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns: dns.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        for (desired, expected) in [
            (names(&[], &[], "system:node:n"), true),
            (names(&["n"], &["10.0.0.1"], "system:node:n"), true),
            (names(&["m"], &[], "system:node:n"), false),
            (names(&[], &["10.0.0.2"], "system:node:n"), false),
            (names(&[], &[], "system:node:m"), false),
        ] {
            assert_eq!(satisfies(&credential, &desired), expected, "{desired:?}");
        }
    }
}
