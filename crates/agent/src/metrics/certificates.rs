//! Certificates that the agent renews: how long they are good, and how renewing went.
//!
//! Only of those that are renewed: a certificate in files is somebody else's.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Timestamp;
use ports::certificate_meter::{CertificateMeter, CertificateUse};
use ports::clock::Clock;

use super::series::{Counter, Histogram};
use super::{Collect, Page};

/// A minute, an hour, four, a day, a week, a month, three, six, a year, four years.
const LIVES: &[f64] =
    &[60.0, 3600.0, 14_400.0, 86_400.0, 604_800.0, 2_592_000.0, 7.776e6, 1.5552e7, 3.1104e7, 1.244_16e8];

/// One certificate.
#[derive(Debug, Default)]
struct Renewed {
    /// The outer `None`: it is not renewed at all.
    until: Mutex<Option<Option<Timestamp>>>,
    errors: Counter,
}

/// What is told of certificates.
pub struct CertificateMetrics {
    clock: Arc<dyn Clock>,
    client: Renewed,
    serving: Renewed,
    serving_lives: Histogram,
}

impl CertificateMetrics {
    /// Nothing is renewed yet.
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

    /// Seconds that a certificate is still good, less than nothing for one that has expired; `None` if it is not renewed.
    fn remaining(&self, of: CertificateUse) -> Option<f64> {
        let until = (*self.of(of).until.lock().unwrap_or_else(PoisonError::into_inner))?;
        let nanos = |time: Timestamp| time.as_nanos() as f64;
        Some(until.map_or(f64::INFINITY, |until| (nanos(until) - nanos(self.clock.now())) / 1e9))
    }
}

impl CertificateMeter for CertificateMetrics {
    fn in_use(&self, of: CertificateUse, until: Option<Timestamp>) {
        *self.of(of).until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
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
            let help = "Seconds that the client certificate is good; +Inf without one";
            page.gauge("kubelet_certificate_manager_client_ttl_seconds", help, seconds);
            page.add(
                "kubelet_certificate_manager_client_expiration_renew_errors",
                "Attempts to get a new client certificate that failed",
                &self.client.errors,
            );
        }
        if let Some(seconds) = self.remaining(CertificateUse::Serving) {
            let help = "Seconds that the serving certificate is good; +Inf without one";
            page.gauge("kubelet_certificate_manager_server_ttl_seconds", help, seconds);
            page.add(
                "kubelet_certificate_manager_server_rotation_seconds",
                "Life of serving certificates that were changed for new ones",
                &self.serving_lives,
            );
            page.add(
                "kubelet_server_expiration_renew_errors",
                "Attempts to get a new serving certificate that failed",
                &self.serving.errors,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Format;

    struct At(i64);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(self.0)
        }
    }

    fn page(metrics: &CertificateMetrics) -> String {
        let mut page = Page::new(Format::Text);
        metrics.collect(&mut page);
        page.into_text()
    }

    #[test]
    fn only_what_is_renewed_is_told() {
        let metrics = CertificateMetrics::new(Arc::new(At(100)));
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
