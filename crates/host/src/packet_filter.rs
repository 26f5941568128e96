//! The packet filter, through `iptables` and `ip6tables`.
//!
//! Uses the programs instead of netlink: network plugins and proxies use the machine's iptables variant (legacy or nft)
//! and could not see rules of the other variant.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use async_trait::async_trait;
use model::{FilterChain, FilterPlan, FilterRule, IpFamily, RulePlace};
use ports::host::packet_filter::{PacketFilter, PacketFilterError};

use crate::helper_program::{self, Arguments, HelperOutcome};

/// Timeout of one call, including the wait for the xtables lock.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the programs wait for the xtables lock.
const LOCK_WAIT_SECONDS: &str = "5";
/// The exit status if a chain or rule does not exist.
const ABSENT: &str = "exit status 1";

/// [`PacketFilter`] through the iptables programs.
#[derive(Clone, Debug)]
pub struct IptablesFilter {
    v4: OsString,
    v6: OsString,
}

impl IptablesFilter {
    /// Takes the programs by name or path.
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
    Call::new(program, chain.table, &["-N", chain.name]).run()
}

fn has_chain(program: &OsStr, chain: FilterChain) -> Result<bool, PacketFilterError> {
    Call::new(program, chain.table, &["-S", chain.name]).succeeds()
}

fn ensure_rule(program: &OsStr, rule: &FilterRule) -> Result<(), PacketFilterError> {
    let call = |command: &'static str| {
        let arguments: Vec<&'static str> =
            [command, rule.chain.name].into_iter().chain(rule.words.iter().copied()).collect();
        Call::new(program, rule.chain.table, &arguments)
    };
    if call("-C").succeeds()? {
        return Ok(());
    }
    let command = match rule.place {
        RulePlace::First => "-I",
        RulePlace::Last => "-A",
    };
    call(command).run()
}

struct Call<'a> {
    program: &'a OsStr,
    arguments: Arguments,
}

impl<'a> Call<'a> {
    fn new(program: &'a OsStr, table: &'static str, arguments: &[&'static str]) -> Self {
        let options = ["-w", LOCK_WAIT_SECONDS, "-t", table];
        Self { program, arguments: Arguments::new(&options).words(arguments) }
    }

    /// Whether the chain or rule exists.
    fn succeeds(&self) -> Result<bool, PacketFilterError> {
        let outcome = helper_program::run(self.program, &self.arguments, CALL_TIMEOUT);
        match outcome.failure.as_deref() {
            None => Ok(true),
            Some(ABSENT) => Ok(false),
            Some(failure) => Err(self.error(failure, &outcome)),
        }
    }

    fn run(&self) -> Result<(), PacketFilterError> {
        let outcome = helper_program::run(self.program, &self.arguments, CALL_TIMEOUT);
        outcome.failure.as_deref().map_or(Ok(()), |failure| Err(self.error(failure, &outcome)))
    }

    fn error(&self, failure: &str, outcome: &HelperOutcome) -> PacketFilterError {
        let program = self.program.to_string_lossy();
        if failure.ends_with("executable file not found in $PATH") || failure == "exit status 3" {
            return PacketFilterError::Missing(program.into_owned());
        }
        PacketFilterError::Failed {
            command: format!("{program} {}", self.arguments.shown()),
            reason: format!("{failure}: {}", outcome.output.trim()),
        }
    }
}

#[cfg(test)]
mod tests;
