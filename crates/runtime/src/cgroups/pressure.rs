//! Pressure stall information of cgroup v2: the share of time in which processes waited.

/// The content of a `*.pressure` file. `full` is missing for a resource that cannot stall all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one process waited.
    pub some: Option<Stall>,
    /// All processes waited.
    pub full: Option<Stall>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    /// Percent of the last 10, 60 and 300 seconds.
    pub average_10: f64,
    pub average_60: f64,
    pub average_300: f64,
    pub total_nanoseconds: u64,
}

impl Pressure {
    /// None if the text has no known line.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let stall = |kind: &str| text.lines().find_map(|line| Stall::parse(line.strip_prefix(kind)?));
        let pressure = Self { some: stall("some "), full: stall("full ") };
        (pressure != Self::default()).then_some(pressure)
    }
}

impl Stall {
    fn parse(fields: &str) -> Option<Self> {
        let field = |name: &str| {
            fields.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let average = |name: &str| field(name)?.parse().ok();
        let microseconds: u64 = field("total")?.parse().ok()?;
        Some(Self {
            average_10: average("avg10")?,
            average_60: average("avg60")?,
            average_300: average("avg300")?,
            total_nanoseconds: microseconds.saturating_mul(1000),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_averages_and_nanoseconds() {
        let text = "some avg10=1.50 avg60=0.20 avg300=0.01 total=42\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let pressure = Pressure::parse(text).unwrap();
        let some = Stall { average_10: 1.5, average_60: 0.2, average_300: 0.01, total_nanoseconds: 42_000 };
        assert_eq!(pressure.some, Some(some));
        assert_eq!(pressure.full.map(|full| full.total_nanoseconds), Some(7000));
        assert_eq!(Pressure::parse("some avg10=x total=1"), None);
    }
}
