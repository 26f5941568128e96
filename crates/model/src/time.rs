use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A wall-clock time in nanoseconds since the Unix epoch, as the CRI counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The epoch; the CRI's way of saying "never".
    pub const ZERO: Self = Self(0);

    /// From nanoseconds since the epoch.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// From whole seconds since the epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Whether this stands for "never".
    pub const fn is_zero(self) -> bool {
        self.0 <= 0
    }

    /// Time passed since `earlier`; zero when `earlier` lies in the future.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This time and a duration later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)))
    }

    /// As an API time, cut to whole seconds as the API shows it.
    pub fn to_api_time(self) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Time {
        let whole = jiff::Timestamp::from_second(self.0.div_euclid(1_000_000_000));
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(whole.unwrap_or_default())
    }

    pub fn from_api_time(time: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Time) -> Self {
        Self(i64::try_from(time.0.as_nanosecond()).unwrap_or_default())
    }

    /// RFC 3339 with nanoseconds, in UTC.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default().to_string()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// A point in the order of what the agent does and sees: an action that ended and an observation that began
/// are compared by it, because clocks are too coarse and jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Before everything.
    pub const START: Self = Self(0);
}

/// Gives out ever later [`Moment`]s; clones share one order.
#[derive(Clone, Debug, Default)]
pub struct MomentSource(Arc<AtomicU64>);

impl MomentSource {
    /// A moment later than every one given out before.
    pub fn next(&self) -> Moment {
        Moment(self.0.fetch_add(1, Ordering::AcqRel) + 1)
    }
}
