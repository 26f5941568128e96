//! Eviction thresholds, parsed from the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use values::quantity::{Amount, binary_si, decimal_si};

use super::reclaim::DiskLayout;
use super::signals::Signal;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThresholdValue {
    /// A fixed amount, written in powers of 1024.
    Binary(i64),
    /// A fixed amount, written in powers of 1000.
    Decimal(i64),
    /// A fraction of the capacity.
    Fraction(f32),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub signal: Signal,
    /// The threshold is met when less than this is available.
    pub value: ThresholdValue,
    /// How long the threshold must be met before pods are evicted; zero for a hard threshold.
    pub grace: Duration,
    /// How much more than `value` must be available before the threshold is resolved.
    pub min_reclaim: Option<ThresholdValue>,
}

/// Thresholds as configured, after validation.
#[derive(Clone, Debug, Default)]
pub struct ThresholdConfig<'a> {
    /// `evictionHard`.
    pub hard: Option<&'a BTreeMap<String, String>>,
    /// `evictionSoft` with the grace period of each: signal, value, grace.
    pub soft: Vec<(&'a str, &'a str, Duration)>,
    /// `evictionMinimumReclaim`.
    pub min_reclaim: Option<&'a BTreeMap<String, String>>,
    /// Whether the cgroup of all pods is limited (`enforceNodeAllocatable`).
    pub limits_pods: bool,
}

impl ThresholdValue {
    /// Parses `100Mi` or `10%`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_suffix('%') {
            return Some(Self::Fraction(number.parse::<f32>().ok()? / 100.0));
        }
        let units = Amount::parse(text)?.units();
        Some(if text.ends_with('i') { Self::Binary(units) } else { Self::Decimal(units) })
    }

    /// The amount for a given capacity.
    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Binary(units) | Self::Decimal(units) => units,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                reason = "upstream's arithmetic, digit by digit"
            )]
            Self::Fraction(fraction) => (capacity as f64 * f64::from(fraction)) as i64,
        }
    }

    /// The amount as a Kubernetes quantity.
    pub(super) fn text(self, capacity: i64) -> String {
        match self {
            Self::Decimal(units) => decimal_si(units),
            Self::Binary(_) | Self::Fraction(_) => binary_si(self.of(capacity)),
        }
    }
}

impl Threshold {
    /// Whether pods are evicted without a grace period.
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.signal, self.grace, self.value) == (other.signal, other.grace, other.value)
    }
}

/// All thresholds. Hard memory thresholds also apply to the cgroup of all pods, if that is limited.
pub fn thresholds(configured: &ThresholdConfig<'_>) -> Vec<Threshold> {
    let min_reclaim = |signal: Signal| ThresholdValue::parse(configured.min_reclaim?.get(signal.as_str())?);
    let threshold = |(name, text, grace): (&str, &str, Duration)| {
        // Both disable the threshold.
        if matches!(text, "0%" | "100%") {
            return None;
        }
        let signal = Signal::from_name(name)?;
        Some(Threshold {
            signal,
            value: ThresholdValue::parse(text)?,
            grace,
            min_reclaim: min_reclaim(signal),
        })
    };
    let hard = configured.hard.into_iter().flatten();
    let hard = hard.map(|(name, text)| (name.as_str(), text.as_str(), Duration::ZERO));
    let mut all: Vec<Threshold> = hard.chain(configured.soft.iter().copied()).filter_map(threshold).collect();
    if configured.limits_pods {
        let of_memory = all.iter().filter(|own| own.signal == Signal::MemoryAvailable && own.is_hard());
        let of_pods = of_memory
            .map(|own| Threshold { signal: Signal::AllocatableMemoryAvailable, ..own.clone() })
            .collect::<Vec<_>>();
        all.extend(of_pods);
    }
    all
}

/// Replaces the thresholds of the container filesystem by those of the filesystem that it is on.
pub fn with_container_filesystem(thresholds: Vec<Threshold>, layout: DiskLayout) -> Vec<Threshold> {
    let (space, inodes) = match layout {
        DiskLayout::Single | DiskLayout::SplitImageFs => (Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        DiskLayout::DedicatedImageFs => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
    };
    let copied = |signal: Signal| {
        let of_space = (signal == space).then_some(Signal::ContainerFsAvailable);
        of_space.or((signal == inodes).then_some(Signal::ContainerFsInodesFree))
    };
    let is_own =
        |own: &Threshold| matches!(own.signal, Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree);
    let mut all: Vec<Threshold> = thresholds.into_iter().filter(|own| !is_own(own)).collect();
    let copies: Vec<Threshold> =
        all.iter().filter_map(|own| Some(Threshold { signal: copied(own.signal)?, ..own.clone() })).collect();
    all.extend(copies);
    all
}
