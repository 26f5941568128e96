//! Rules of the machine's packet filter.

/// One of the two filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A chain by its table and name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterChain {
    /// The table, such as `mangle`.
    pub table: &'static str,
    pub name: &'static str,
}

/// Where a rule belongs in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePlace {
    /// Before all others.
    First,
    /// After all others.
    Last,
}

/// A rule in the words of `iptables`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRule {
    pub chain: FilterChain,
    /// Where in the chain, when it is new.
    pub place: RulePlace,
    /// What it matches and does.
    pub words: Vec<&'static str>,
}

/// The chains and rules that must exist; chains come before the rules that refer to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterPlan {
    pub chains: Vec<FilterChain>,
    pub rules: Vec<FilterRule>,
    /// Empty chains by whose absence it is noticed that somebody emptied the filter. They are made last: one that is
    /// there means that everything else was made.
    pub canaries: [FilterChain; 3],
}
