//! The version of this build, which `build.rs` takes from the environment or from git.

use std::sync::LazyLock;

use config::KUBERNETES_VERSION;

/// Such as `0.1.0`, or `0.1.0-3-g0123abc` three commits after a release.
pub const VERSION: &str = env!("PODWARD_VERSION");

/// Empty in a development build.
const COMMIT: &str = env!("PODWARD_COMMIT");

/// One line for people: version, commit and the Kubernetes release that the agent corresponds to.
#[must_use]
pub fn version_line() -> String {
    format!("podward {}", without_program())
}

/// [`version_line`] without the name of the program, which clap adds.
pub(crate) fn without_program() -> &'static str {
    static DESCRIPTION: LazyLock<String> = LazyLock::new(|| describe(VERSION, COMMIT));
    &DESCRIPTION
}

fn describe(version: &str, commit: &str) -> String {
    let commit = if commit.is_empty() { "development build".to_owned() } else { format!("commit {commit}") };
    format!("{version} ({commit}, Kubernetes {KUBERNETES_VERSION})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_version_commit_and_kubernetes_release() {
        assert_eq!(describe("1.2.0", "0123456789ab"), "1.2.0 (commit 0123456789ab, Kubernetes v1.36.4)");
        assert_eq!(describe("1.2.0", ""), "1.2.0 (development build, Kubernetes v1.36.4)");
    }

    #[test]
    fn version_is_a_number_that_can_be_compared() {
        assert!(VERSION.starts_with(|first: char| first.is_ascii_digit()), "{VERSION}");
    }
}
