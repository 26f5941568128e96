//! AppArmor of this machine: which profiles are loaded, and the default profile, which is loaded for its first container.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::translation::{AppArmorHost, DEFAULT_APPARMOR_PROFILE};
use crate::errors::ServiceError;

const FIELD: &str = "apparmor";
const PARSER: &str = "apparmor_parser";
const DEFAULT_PROFILE: &str = include_str!("apparmor/default.profile");
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The state of AppArmor. Loads the default profile if the container needs it and it is not loaded yet. Blocks.
pub(super) fn host(needs_default: bool) -> Result<AppArmorHost, ServiceError> {
    let host = read();
    if !host.enabled || !needs_default || host.profiles.contains(DEFAULT_APPARMOR_PROFILE) {
        return Ok(host);
    }
    run_parser(&["--replace"]).map_err(|problem| {
        let problem = format!("load the profile {DEFAULT_APPARMOR_PROFILE} with {PARSER}: {problem}");
        ServiceError::setting(FIELD, problem)
    })?;
    Ok(read())
}

fn read() -> AppArmorHost {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled").unwrap_or_default();
    if enabled.trim() != "Y" || !Path::new("/sys/kernel/security/apparmor").exists() {
        return AppArmorHost::default();
    }
    let loaded = fs::read_to_string("/sys/kernel/security/apparmor/profiles").unwrap_or_default();
    // Each line is a name and a mode in parentheses.
    let name = |line: &str| line.rsplit_once(" (").map(|(name, _)| name.to_owned());
    AppArmorHost { enabled: true, profiles: loaded.lines().filter_map(name).collect::<BTreeSet<_>>() }
}

/// Gives the default profile to the parser.
fn run_parser(arguments: &[&str]) -> Result<(), String> {
    let mut child = Command::new(PARSER)
        .arg("--skip-cache")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{error}; install the package apparmor, or load the profile yourself"))?;
    // The profile is smaller than the buffer of a pipe. A parser that ends early says why.
    let written = child.stdin.take().map(|mut input| input.write_all(DEFAULT_PROFILE.as_bytes()));
    let deadline = Instant::now() + LOAD_TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() < deadline => std::thread::park_timeout(POLL_INTERVAL),
            None => {
                // It may have ended meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("killed after {LOAD_TIMEOUT:?}"));
            }
        }
    };
    let mut text = String::new();
    if let Some(errors) = child.stderr.take() {
        // After an error the text is shorter.
        let _ = errors.take(4096).read_to_string(&mut text);
    }
    match (status.success(), written) {
        (true, Some(Ok(()))) => Ok(()),
        (true, _) => Err("the profile could not be written to its standard input".to_owned()),
        (false, _) => Err(format!("{status}: {}", text.trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles the profile without loading it, which works without AppArmor in the kernel.
    #[test]
    #[ignore = "needs Debian packages"]
    fn parser_accepts_the_default_profile() {
        let version =
            ["--skip-kernel-load", "--abort-on-error", "--features-file", "/etc/apparmor.d/abi/3.0"];
        run_parser(&version).unwrap();
        assert!(DEFAULT_PROFILE.contains(&format!("profile {DEFAULT_APPARMOR_PROFILE} ")));
    }

    #[test]
    #[ignore = "needs Debian packages"]
    fn refusal_of_the_parser_is_reported() {
        let problem = run_parser(&["--no-such-option"]).unwrap_err();
        assert!(problem.contains("exit status"), "{problem}");
    }
}
