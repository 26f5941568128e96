//! When a certificate is changed for a new one, and when a node without one gives up. Pure.

use std::time::Duration;

use model::Timestamp;

use super::credential::{Credential, Names};

/// How long a node runs without a certificate while the API server answers, before it ends to be set up anew.
const PATIENCE: Duration = Duration::from_secs(5 * 60);
/// Waits between attempts double from the first to the last.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LAST_WAIT: Duration = Duration::from_secs(32);

/// When a certificate is due: after 70 to 90 % of its life, by `spread` between 0 and 1, so that nodes set up together
/// do not ask together.
pub(super) fn due_at(not_before: Timestamp, not_after: Timestamp, spread: f64) -> Timestamp {
    let share = 0.2f64.mul_add(spread.clamp(0.0, 1.0), 0.7);
    not_before.after(not_after.since(not_before).mul_f64(share))
}

/// Whether a certificate says all that is wanted. More does no harm.
pub(super) fn satisfies(credential: &Credential, wanted: &Names) -> bool {
    let has = &credential.names;
    has.common_name == wanted.common_name
        && wanted.organizations.iter().all(|name| has.organizations.contains(name))
        && wanted.dns.iter().all(|name| has.dns.contains(name))
        && wanted.addresses.iter().all(|address| has.addresses.contains(address))
}

/// The wait after so many failed attempts in a row; without any, half of the first.
pub(super) fn wait_after(failures: u32, spread: f64) -> Duration {
    if failures == 0 {
        return FIRST_WAIT / 2;
    }
    let doubled = FIRST_WAIT.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
    doubled.min(LAST_WAIT).mul_f64(0.1f64.mul_add(spread.clamp(0.0, 1.0), 1.0))
}

/// What the server made of the last request for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerHealth {
    /// Nothing is known, or it is in trouble itself.
    Unknown,
    /// It works and does not want us.
    RefusesUs,
}

/// Whether to give up: no valid certificate for five minutes though the server works. While it is away, waiting is all
/// that can be done, and the pods go on.
pub(super) fn gives_up(now: Timestamp, last_valid: Timestamp, health: ServerHealth) -> bool {
    health == ServerHealth::RefusesUs && now.since(last_valid) > PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::test_certificates::{Authority, issued};

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn due_between_seventy_and_ninety_percent() {
        for (from, to, spread, expected) in [
            (0, 1000, 0.0, 700),
            (0, 1000, 0.5, 800),
            (0, 1000, 1.0, 900),
            (5000, 6000, 1.0, 5900),
            (0, 1000, 7.0, 900),
            // Nonsense is due at once.
            (1000, 0, 0.5, 1000),
        ] {
            let due = due_at(at(from), at(to), spread).as_nanos() / 1_000_000;
            assert_eq!(due, expected * 1000, "{from} {to} {spread}");
        }
    }

    #[test]
    fn waits_double_to_the_last() {
        let seconds: Vec<u64> = (0..=7).map(|failures| wait_after(failures, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(wait_after(u32::MAX, 1.0), Duration::from_millis(35_200));
    }

    #[test]
    fn gives_up_only_when_the_server_works() {
        for (now, health, expected) in [
            (300, ServerHealth::RefusesUs, false),
            (301, ServerHealth::RefusesUs, true),
            (100_000, ServerHealth::Unknown, false),
        ] {
            assert_eq!(gives_up(at(now), at(0), health), expected, "{now} {health:?}");
        }
    }

    #[test]
    fn a_certificate_may_say_more_than_wanted() {
        let (certificate, key) = issued(&Authority::new(), "system:node:n", &["n", "10.0.0.1"], 0, 1);
        let credential = Credential::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        let names = |dns: &[&str], addresses: &[&str], common_name: &str| Names {
            common_name: common_name.to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            dns: dns.iter().map(|name| (*name).to_owned()).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        for (wanted, expected) in [
            (names(&[], &[], "system:node:n"), true),
            (names(&["n"], &["10.0.0.1"], "system:node:n"), true),
            (names(&["m"], &[], "system:node:n"), false),
            (names(&[], &["10.0.0.2"], "system:node:n"), false),
            (names(&[], &[], "system:node:m"), false),
        ] {
            assert_eq!(satisfies(&credential, &wanted), expected, "{wanted:?}");
        }
    }
}
