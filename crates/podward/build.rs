//! Sets `PODWARD_VERSION` and `PODWARD_COMMIT` for the crate.
//!
//! Variables of the same name win, so that a build without git, such as one from a source archive, can name its release. A
//! release build otherwise asks git, and is built again when HEAD moves. A development build has no commit, so that a commit
//! costs no rebuild. Nothing here depends on the time or the machine.

use std::path::PathBuf;
use std::process::Command;

const VARIABLES: [&str; 2] = ["PODWARD_VERSION", "PODWARD_COMMIT"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in VARIABLES {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let [given_version, given_commit] =
        VARIABLES.map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let asks_git = is_release && given_version.is_none() && given_commit.is_none();
    if asks_git {
        watch_head();
    }
    let version = given_version.or_else(|| asks_git.then(described_tag).flatten());
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    let commit =
        given_commit.or_else(|| asks_git.then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten());
    println!("cargo:rustc-env=PODWARD_VERSION={version}");
    println!("cargo:rustc-env=PODWARD_COMMIT={}", commit.unwrap_or_default());
}

/// The nearest tag such as `v1.2.0`, with the distance to it: `1.2.0` or `1.2.0-3-g0123abc`.
fn described_tag() -> Option<String> {
    let described = git(&["describe", "--tags", "--match", "v[0-9]*"])?;
    Some(described.trim_start_matches('v').to_owned())
}

/// Builds again when HEAD, its branch or a tag changes.
fn watch_head() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD".to_owned(), "packed-refs".to_owned(), "refs/tags".to_owned()];
    for name in names.into_iter().chain(branch) {
        let path = git(&["rev-parse", "--git-path", &name]).map(PathBuf::from);
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}
