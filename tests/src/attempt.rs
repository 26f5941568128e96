//! Attempts of a scenario, and reports of failed ones.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::agent_process::Agent;
use testkit::node_runtime::RuntimeKind;

use crate::runtimes::exclusion;

/// Upstream's run shows whether the scenario is fair; races that upstream loses are not ours to fix.
const UPSTREAM_TRIES: u32 = 3;

/// Runs one scenario for one agent on a new async runtime; `name` identifies it in reports of failed attempts.
///
/// # Panics
/// When the last attempt fails; the agent's log has been printed by then.
#[expect(clippy::panic, reason = "the way a test fails")]
pub fn run<F: Future<Output = anyhow::Result<()>>>(agent: Agent, name: &str, scenario: impl Fn(Agent) -> F) {
    if !agent.selected() {
        println!("not selected by PODWARD_AGENTS: {}", agent.name());
        return;
    }
    let runtime = RuntimeKind::selected();
    if let Some(reason) = exclusion(runtime, agent, name) {
        println!("not on the runtime {}: {reason}", runtime.name());
        return;
    }
    let retries = std::env::var("PODWARD_RETRIES").ok();
    let tries = tries(agent, retries.as_deref());
    let result = repeat(tries, || attempt(agent, &scenario), |error| report(&note(agent, name, error)));
    if let Err(error) = result {
        panic!("{}: {error}", agent.name());
    }
}

/// Repeats until success; reports every failure but the last.
fn repeat(
    tries: u32,
    mut attempt: impl FnMut() -> Result<(), String>,
    mut report: impl FnMut(&str),
) -> Result<(), String> {
    for _ in 1..tries {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(error) => report(&error),
        }
    }
    attempt()
}

/// Upstream has three attempts. Podward has one, plus the number in `PODWARD_RETRIES`.
fn tries(agent: Agent, retries: Option<&str>) -> u32 {
    match agent {
        Agent::Upstream => UPSTREAM_TRIES,
        Agent::Podward => 1 + retries.and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

/// The error as text, also for a panic of the scenario.
fn attempt<F: Future<Output = anyhow::Result<()>>>(
    agent: Agent,
    scenario: &impl Fn(Agent) -> F,
) -> Result<(), String> {
    let once = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(scenario(agent)))
    };
    match catch_unwind(AssertUnwindSafe(once)) {
        Ok(result) => result.map_err(|error| format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
        }
    }
}

/// One line, however long the error is.
fn note(agent: Agent, name: &str, error: &str) -> String {
    const LONGEST: usize = 600;
    let word = match agent {
        Agent::Podward => "FLAKY",
        Agent::Upstream => "RETRY",
    };
    let flat: Vec<&str> = error.split_whitespace().collect();
    let short: String = flat.join(" ").chars().take(LONGEST).collect();
    format!("{word} {name}: {short}")
}

/// Prints a line although the test harness captures the output of passing tests, and appends it to the file in
/// `PODWARD_FLAKY`.
fn report(line: &str) {
    // The harness has just printed the name of the test without a line break.
    let _ = writeln!(std::io::stderr(), "\n{line}");
    let Some(path) = std::env::var_os("PODWARD_FLAKY") else { return };
    let file = std::fs::File::options().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
        println!("the line is not in the list: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podward_has_one_attempt_by_default() {
        assert_eq!(tries(Agent::Podward, None), 1);
        assert_eq!(tries(Agent::Podward, Some("1")), 2);
        assert_eq!(tries(Agent::Podward, Some("many")), 1);
        assert_eq!(tries(Agent::Upstream, None), 3);
    }

    #[test]
    fn errors_and_panics_fail_an_attempt() {
        let result = attempt(Agent::Podward, &async |_| anyhow::bail!("one\n two"));
        assert_eq!(result, Err("one\n two".to_owned()));
        let result = attempt(Agent::Podward, &async |_| panic!("no container {}", 7));
        assert_eq!(result, Err("no container 7".to_owned()));
    }

    #[test]
    fn note_is_one_line() {
        assert_eq!(note(Agent::Podward, "a::podward::b", "one\n  two"), "FLAKY a::podward::b: one two");
        assert!(note(Agent::Upstream, "b", &"x".repeat(5000)).len() < 700);
    }

    #[test]
    fn earlier_failures_are_reported_and_tolerated() {
        let check = |tries: u32, good: u32| {
            let (mut made, mut reported) = (0, Vec::new());
            let attempt = || {
                made += 1;
                if made == good { Ok(()) } else { Err(format!("try {made}")) }
            };
            (repeat(tries, attempt, |error| reported.push(error.to_owned())), reported.join(", "))
        };
        assert_eq!(check(1, 1), (Ok(()), String::new()));
        assert_eq!(check(1, 2), (Err("try 1".to_owned()), String::new()));
        assert_eq!(check(3, 3), (Ok(()), "try 1, try 2".to_owned()));
        assert_eq!(check(3, 4), (Err("try 3".to_owned()), "try 1, try 2".to_owned()));
    }
}
