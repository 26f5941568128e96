//! Rate limits of the API clients.

/// Requests per second on average, and the burst that is allowed after an idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub per_second: u32,
    pub burst: u32,
}

impl RateLimit {
    /// From `kubeAPIQPS` and `kubeAPIBurst`. Zero means client-go's default, same as upstream.
    #[must_use]
    pub fn for_requests(per_second: i32, burst: i32) -> Self {
        let or_default =
            |value: i32, default| u32::try_from(value).ok().filter(|value| *value > 0).unwrap_or(default);
        Self { per_second: or_default(per_second, 5), burst: or_default(burst, 10) }
    }

    /// From `eventRecordQPS` and `eventBurst`. Zero means no limit.
    #[must_use]
    pub fn for_events(per_second: i32, burst: i32) -> Option<Self> {
        (per_second > 0).then(|| Self::for_requests(per_second, burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_settings_to_rate_limits() {
        let rate = |per_second, burst| RateLimit { per_second, burst };
        for (setting, requests, events) in [
            ((50, 100), rate(50, 100), Some(rate(50, 100))),
            ((0, 0), rate(5, 10), None),
            ((0, 7), rate(5, 7), None),
            ((3, 0), rate(3, 10), Some(rate(3, 10))),
        ] {
            assert_eq!(RateLimit::for_requests(setting.0, setting.1), requests, "{setting:?}");
            assert_eq!(RateLimit::for_events(setting.0, setting.1), events, "{setting:?}");
        }
    }
}
