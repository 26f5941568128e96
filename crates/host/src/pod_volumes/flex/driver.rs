//! One FlexVolume driver: a program that is told what to do and answers in JSON.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::helper;

/// Disks take their time.
const DEADLINE: Duration = Duration::from_secs(100);
const NOT_SUPPORTED: &str = "Not supported";

/// A driver, as long as its program stays the same.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    program: PathBuf,
    mark: Mark,
    pub(super) abilities: Abilities,
    /// Orders that the driver does not know.
    unsupported: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// What tells one version of a program from another.
type Mark = (u64, i64, i64);

/// What a driver says that it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Volumes are attached and mounted for the node before pods have them.
    pub(super) attach: bool,
    /// The agent gives volumes to groups.
    pub(super) group: bool,
    /// File systems are to follow disks that have grown.
    pub(super) resize: bool,
}

/// Why an order was not carried out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The driver leaves it to the agent.
    NotSupported,
    /// It failed.
    Failed(String),
}

impl Driver {
    /// Begins to use a driver. `known` is what it was before.
    pub(super) fn open(folder: &Path, name: &str, known: Option<&Self>) -> Result<Self, String> {
        let program = program(folder, name);
        let missing = |error: std::io::Error| {
            format!("no volume plugin matched: {name} ({}: {error})", program.display())
        };
        let found = std::fs::metadata(&program).map_err(missing)?;
        let mark = (found.ino(), found.mtime(), found.mtime_nsec());
        if let Some(known) = known.filter(|known| known.mark == mark) {
            return Ok(known.clone());
        }
        let mut driver = Self {
            program,
            mark,
            abilities: Abilities { attach: true, group: true, resize: true },
            unsupported: Arc::default(),
        };
        match driver.call("init", &[]) {
            Ok(answer) => driver.abilities = abilities(&answer),
            Err(Refusal::NotSupported) => return Err(format!("driver {name}: init: {NOT_SUPPORTED}")),
            Err(Refusal::Failed(reason)) => return Err(format!("driver {name}: {reason}")),
        }
        Ok(driver)
    }

    /// Gives an order.
    pub(super) fn call(&self, order: &'static str, words: &[&str]) -> Result<Value, Refusal> {
        if self.unsupported().contains(order) {
            return Err(Refusal::NotSupported);
        }
        let arguments: Vec<OsString> =
            std::iter::once(order).chain(words.iter().copied()).map(OsString::from).collect();
        let ended = helper::run(self.program.as_os_str(), &arguments, DEADLINE);
        let answered = answer(order, &ended.output);
        match (answered, ended.failure) {
            (Err(Refusal::NotSupported), _) => {
                self.unsupported().insert(order);
                Err(Refusal::NotSupported)
            }
            // It says that all is well, and does not end well.
            (Ok(_), Some(failure)) => Err(Refusal::Failed(failure)),
            (Err(Refusal::Failed(reason)), Some(failure)) => {
                Err(Refusal::Failed(format!("{reason} ({failure})")))
            }
            (answered, None) => answered,
        }
    }

    fn unsupported(&self) -> std::sync::MutexGuard<'_, BTreeSet<&'static str>> {
        self.unsupported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program of a driver, `vendor~driver/driver`.
pub(super) fn program(folder: &Path, name: &str) -> PathBuf {
    let file = name.rsplit('/').next().unwrap_or(name);
    folder.join(name.replace('/', "~")).join(file)
}

/// Reads what a driver says.
fn answer(order: &str, output: &str) -> Result<Value, Refusal> {
    let failed = |reason: String| Err(Refusal::Failed(reason));
    let value: Value = match serde_json::from_str(output.trim()) {
        Ok(value) => value,
        Err(error) => return failed(format!("{order}: the driver's answer is no JSON: {error}")),
    };
    match field(&value, "status").and_then(Value::as_str) {
        Some("Success") => Ok(value),
        Some(NOT_SUPPORTED) => Err(Refusal::NotSupported),
        status => failed(format!(
            "{order} command failed, status: {}, reason: {}",
            status.unwrap_or_default(),
            field(&value, "message").and_then(Value::as_str).unwrap_or_default()
        )),
    }
}

/// The device that an answer names, or nothing.
pub(super) fn device(answer: &Value) -> String {
    field(answer, "device").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn abilities(answer: &Value) -> Abilities {
    let said = field(answer, "capabilities");
    let can = |name: &str| said.and_then(|said| field(said, name)).and_then(Value::as_bool).unwrap_or(true);
    Abilities { attach: can("attach"), group: can("fsGroup"), resize: can("requiresFSResize") }
}

/// Drivers were never held to one way of writing names.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_as_upstream_reads_them() {
        let answer = |text: &str| answer("mount", text);
        assert_eq!(device(&answer(r#"{"status": "Success", "device": "/dev/x"}"#).unwrap()), "/dev/x");
        assert_eq!(answer(r#"{"status": "Not supported"}"#), Err(Refusal::NotSupported));
        let failed = Refusal::Failed("mount command failed, status: Failure, reason: no disk".to_owned());
        assert_eq!(answer(r#"{"status": "Failure", "message": "no disk"}"#), Err(failed));
        assert!(matches!(answer("oops"), Err(Refusal::Failed(reason)) if reason.contains("no JSON")));
    }

    #[test]
    fn a_driver_can_everything_that_it_does_not_deny() {
        for (said, attach, group, resize) in [
            (json!({}), true, true, true),
            (json!({"capabilities": {"attach": false}}), false, true, true),
            (json!({"Capabilities": {"fsGroup": false, "requiresFSResize": false}}), true, false, false),
        ] {
            assert_eq!(abilities(&said), Abilities { attach, group, resize }, "{said}");
        }
    }
}
