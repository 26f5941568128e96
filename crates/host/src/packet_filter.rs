//! The packet filter by `iptables` and `ip6tables`.
//!
//! The programs, not netlink: whoever else looks (network plugins, proxies) does so with the flavour that the machine has
//! set up, and rules of the other flavour would be hidden from them.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use async_trait::async_trait;
use model::{FilterChain, FilterPlan, FilterRule, IpFamily, RulePlace};
use ports::packet_filter::{PacketFilter, PacketFilterError};

use crate::helper::{self, Ended};

/// One call, with its wait for others.
const DEADLINE: Duration = Duration::from_secs(15);
/// Seconds to wait for others that change the filter.
const PATIENCE: &str = "5";
/// How the programs say that something is not there.
const ABSENT: &str = "exit status 1";

/// Runs the programs of this machine.
#[derive(Clone, Debug)]
pub struct IptablesFilter {
    v4: OsString,
    v6: OsString,
}

impl IptablesFilter {
    /// With those programs, by name or by path.
    #[must_use]
    pub fn new(v4: impl Into<OsString>, v6: impl Into<OsString>) -> Self {
        Self { v4: v4.into(), v6: v6.into() }
    }

    fn program(&self, family: IpFamily) -> OsString {
        match family {
            IpFamily::V4 => self.v4.clone(),
            IpFamily::V6 => self.v6.clone(),
        }
    }
}

#[async_trait]
impl PacketFilter for IptablesFilter {
    async fn ensure(&self, family: IpFamily, plan: &FilterPlan) -> Result<(), PacketFilterError> {
        let (program, plan) = (self.program(family), plan.clone());
        blocking(move || ensure(&program, &plan)).await
    }

    async fn has(&self, family: IpFamily, chain: FilterChain) -> Result<bool, PacketFilterError> {
        let program = self.program(family);
        blocking(move || has_chain(&program, chain)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PacketFilterError> + Send + 'static,
) -> Result<T, PacketFilterError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        Err(PacketFilterError::Failed { command: "iptables".to_owned(), reason: error.to_string() })
    })
}

fn ensure(program: &OsStr, plan: &FilterPlan) -> Result<(), PacketFilterError> {
    plan.chains.iter().try_for_each(|chain| ensure_chain(program, *chain))?;
    plan.rules.iter().try_for_each(|rule| ensure_rule(program, rule))?;
    plan.canaries.iter().try_for_each(|chain| ensure_chain(program, *chain))
}

fn ensure_chain(program: &OsStr, chain: FilterChain) -> Result<(), PacketFilterError> {
    if has_chain(program, chain)? {
        return Ok(());
    }
    Call::new(program, chain.table, &["-N", chain.name]).succeed()
}

fn has_chain(program: &OsStr, chain: FilterChain) -> Result<bool, PacketFilterError> {
    Call::new(program, chain.table, &["-S", chain.name]).ask()
}

fn ensure_rule(program: &OsStr, rule: &FilterRule) -> Result<(), PacketFilterError> {
    let call = |order: &str| {
        let words: Vec<&str> =
            [order, rule.chain.name].into_iter().chain(rule.words.iter().copied()).collect();
        Call::new(program, rule.chain.table, &words)
    };
    if call("-C").ask()? {
        return Ok(());
    }
    let order = match rule.place {
        RulePlace::First => "-I",
        RulePlace::Last => "-A",
    };
    call(order).succeed()
}

/// One call of a program.
struct Call<'a> {
    program: &'a OsStr,
    arguments: Vec<OsString>,
}

impl<'a> Call<'a> {
    fn new(program: &'a OsStr, table: &str, words: &[&str]) -> Self {
        let options = ["-w", PATIENCE, "-t", table];
        Self { program, arguments: options.iter().chain(words).map(OsString::from).collect() }
    }

    /// Whether what is asked for is there.
    fn ask(&self) -> Result<bool, PacketFilterError> {
        let ended = helper::run(self.program, &self.arguments, DEADLINE);
        match ended.failure.as_deref() {
            None => Ok(true),
            Some(ABSENT) => Ok(false),
            Some(failure) => Err(self.error(failure, &ended)),
        }
    }

    fn succeed(&self) -> Result<(), PacketFilterError> {
        let ended = helper::run(self.program, &self.arguments, DEADLINE);
        ended.failure.as_deref().map_or(Ok(()), |failure| Err(self.error(failure, &ended)))
    }

    fn error(&self, failure: &str, ended: &Ended) -> PacketFilterError {
        let program = self.program.to_string_lossy();
        if failure.ends_with("executable file not found in $PATH") || failure == "exit status 3" {
            return PacketFilterError::Missing(program.into_owned());
        }
        let words = self.arguments.join(OsStr::new(" "));
        PacketFilterError::Failed {
            command: format!("{program} {}", words.to_string_lossy()),
            reason: format!("{failure}: {}", ended.output.trim()),
        }
    }
}

#[cfg(test)]
mod tests;
