//! Lifetimes and renewals of certificates that the agent requests. Certificates from files are not counted.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use model::Timestamp;
use ports::clock::Clock;
use ports::telemetry::certificate_meter::{CertificateMeter, CertificateUse};

use super::series::{Counter, Histogram};
use super::{Collect, Page};

/// A minute, an hour, four, a day, a week, a month, three, six, a year, four years.
const LIVES: &[f64] =
    &[60.0, 3600.0, 14_400.0, 86_400.0, 604_800.0, 2_592_000.0, 7.776e6, 1.5552e7, 3.1104e7, 1.244_16e8];

#[derive(Debug, Default)]
struct Renewed {
    /// The outer `None`: the certificate is not renewed by the agent.
    until: Mutex<Option<Option<Timestamp>>>,
    errors: Counter,
}

pub struct CertificateMetrics {
    clock: Arc<dyn Clock>,
    client: Renewed,
    serving: Renewed,
    serving_lives: Histogram,
}

impl CertificateMetrics {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            client: Renewed::default(),
            serving: Renewed::default(),
            serving_lives: Histogram::new(LIVES),
        }
    }

    fn of(&self, of: CertificateUse) -> &Renewed {
        match of {
            CertificateUse::Client => &self.client,
            CertificateUse::Serving => &self.serving,
        }
    }

    /// Remaining lifetime in seconds, negative after the expiry; `None` if it is not renewed.
    fn remaining(&self, of: CertificateUse) -> Option<f64> {
        let until = (*self.of(of).until.lock())?;
        let nanos = |time: Timestamp| time.as_nanos() as f64;
        Some(until.map_or(f64::INFINITY, |until| (nanos(until) - nanos(self.clock.now())) / 1e9))
    }
}

impl CertificateMeter for CertificateMetrics {
    fn in_use(&self, of: CertificateUse, until: Option<Timestamp>) {
        *self.of(of).until.lock() = Some(until);
    }

    fn replaced(&self, of: CertificateUse, lived: Duration) {
        if of == CertificateUse::Serving {
            self.serving_lives.observe(lived.as_secs_f64());
        }
    }

    fn not_renewed(&self, of: CertificateUse) {
        self.of(of).errors.inc();
    }
}

impl Collect for CertificateMetrics {
    fn collect(&self, page: &mut Page) {
        if let Some(seconds) = self.remaining(CertificateUse::Client) {
            page.gauge(
                "kubelet_certificate_manager_client_ttl_seconds",
                "Remaining lifetime of the client certificate in seconds; +Inf without one",
                seconds,
            );
            page.add(
                "kubelet_certificate_manager_client_expiration_renew_errors",
                "Failed renewals of the client certificate",
                &self.client.errors,
            );
        }
        if let Some(seconds) = self.remaining(CertificateUse::Serving) {
            page.gauge(
                "kubelet_certificate_manager_server_ttl_seconds",
                "Remaining lifetime of the serving certificate in seconds; +Inf without one",
                seconds,
            );
            page.add(
                "kubelet_certificate_manager_server_rotation_seconds",
                "Age of replaced serving certificates",
                &self.serving_lives,
            );
            page.add(
                "kubelet_server_expiration_renew_errors",
                "Failed renewals of the serving certificate",
                &self.serving.errors,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::fake_clock::FakeClock;

    use super::*;
    use crate::metrics::Format;

    fn page(metrics: &CertificateMetrics) -> String {
        let mut page = Page::new(Format::Text);
        metrics.collect(&mut page);
        page.into_text()
    }

    #[test]
    fn exposes_only_renewed_certificates() {
        let metrics = CertificateMetrics::new(Arc::new(FakeClock::fixed(100)));
        assert_eq!(page(&metrics), "");
        metrics.in_use(CertificateUse::Client, None);
        let text = page(&metrics);
        assert!(text.contains("\nkubelet_certificate_manager_client_ttl_seconds +Inf\n"), "{text}");
        assert!(!text.contains("server"), "{text}");
        metrics.in_use(CertificateUse::Client, Some(Timestamp::from_secs(160)));
        metrics.in_use(CertificateUse::Serving, Some(Timestamp::from_secs(40)));
        metrics.not_renewed(CertificateUse::Serving);
        metrics.replaced(CertificateUse::Serving, Duration::from_secs(70));
        let text = page(&metrics);
        for line in [
            "\nkubelet_certificate_manager_client_ttl_seconds 60\n",
            "\nkubelet_certificate_manager_client_expiration_renew_errors 0\n",
            "\nkubelet_certificate_manager_server_ttl_seconds -60\n",
            "\nkubelet_certificate_manager_server_rotation_seconds_bucket{le=\"3600\"} 1\n",
            "\nkubelet_server_expiration_renew_errors 1\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
