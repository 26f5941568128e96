//! Thresholds, from the words of the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use super::reclaim::DiskLayout;
use super::signals::Signal;
use crate::quantity::Amount;
use crate::quantity::text::{binary, decimal};

/// How much of something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A fixed amount, written in powers of 1024.
    Binary(i64),
    /// A fixed amount, written in powers of 1000.
    Decimal(i64),
    /// A share of what there is.
    Share(f32),
}

/// When a signal means that the node is short of something.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// What is measured.
    pub signal: Signal,
    /// Less than this is too little.
    pub value: Value,
    /// How long it may be too little; a hard threshold has none.
    pub grace: Duration,
    /// How much more must be there before it is enough again.
    pub min_reclaim: Option<Value>,
}

/// The words of the configuration. Validation has seen them.
#[derive(Clone, Debug, Default)]
pub struct Configured<'a> {
    /// `evictionHard`.
    pub hard: Option<&'a BTreeMap<String, String>>,
    /// `evictionSoft`, with the grace of each.
    pub soft: Vec<(&'a str, &'a str, Duration)>,
    /// `evictionMinimumReclaim`.
    pub min_reclaim: Option<&'a BTreeMap<String, String>>,
    /// Whether the cgroup of all pods is limited (`enforceNodeAllocatable`).
    pub limits_pods: bool,
}

impl Value {
    /// Reads `100Mi` or `10%`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_suffix('%') {
            return Some(Self::Share(number.parse::<f32>().ok()? / 100.0));
        }
        let units = Amount::parse(text)?.units();
        Some(if text.ends_with('i') { Self::Binary(units) } else { Self::Decimal(units) })
    }

    /// How much that is of a capacity.
    #[must_use]
    pub fn of(self, capacity: i64) -> i64 {
        match self {
            Self::Binary(units) | Self::Decimal(units) => units,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                reason = "upstream's arithmetic, digit by digit"
            )]
            Self::Share(share) => (capacity as f64 * f64::from(share)) as i64,
        }
    }

    /// The same as the API writes it.
    pub(super) fn text(self, capacity: i64) -> String {
        match self {
            Self::Decimal(units) => decimal(units),
            Self::Binary(_) | Self::Share(_) => binary(self.of(capacity)),
        }
    }
}

impl Threshold {
    /// Whether pods go at once.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.signal, self.grace, self.value) == (other.signal, other.grace, other.value)
    }
}

/// All thresholds. What hard thresholds say of memory counts for the cgroup of all pods, too, if that is limited.
#[must_use]
pub fn thresholds(configured: &Configured<'_>) -> Vec<Threshold> {
    let min_reclaim = |signal: Signal| Value::parse(configured.min_reclaim?.get(signal.as_str())?);
    let threshold = |(word, text, grace): (&str, &str, Duration)| {
        // Both turn the threshold off.
        if matches!(text, "0%" | "100%") {
            return None;
        }
        let signal = Signal::named(word)?;
        Some(Threshold { signal, value: Value::parse(text)?, grace, min_reclaim: min_reclaim(signal) })
    };
    let hard = configured.hard.into_iter().flatten();
    let hard = hard.map(|(word, text)| (word.as_str(), text.as_str(), Duration::ZERO));
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

/// The same, with thresholds for the disk of containers: those of the disk that it is on. Its own are ignored.
#[must_use]
pub fn with_container_disk(thresholds: Vec<Threshold>, layout: DiskLayout) -> Vec<Threshold> {
    let (space, inodes) = match layout {
        DiskLayout::One | DiskLayout::ImagesAndContainersApart => {
            (Signal::NodeFsAvailable, Signal::NodeFsInodesFree)
        }
        DiskLayout::ImagesApart => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
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
