//! Calls one FlexVolume driver: a program with command-line arguments and JSON responses.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::helper_program::{self, Arguments};

/// Disk operations are slow.
const CALL_TIMEOUT: Duration = Duration::from_secs(100);
const NOT_SUPPORTED: &str = "Not supported";

/// A driver, valid until its program changes.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    program: PathBuf,
    version: ProgramVersion,
    pub(super) capabilities: DriverCapabilities,
    /// Commands that the driver does not support.
    unsupported: Arc<Mutex<BTreeSet<&'static str>>>,
}

/// Inode and modification time.
type ProgramVersion = (u64, i64, i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DriverCapabilities {
    /// Volumes are attached and mounted for the node before pods use them.
    pub(super) attach: bool,
    /// The agent sets the group of volumes.
    pub(super) group: bool,
    /// File systems must be resized after their disks.
    pub(super) resize: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum DriverError {
    /// The agent does it itself.
    NotSupported,
    Failed(String),
}

impl Driver {
    /// Initializes a driver. Returns `cached` if its program is unchanged.
    pub(super) fn open(folder: &Path, name: &str, cached: Option<&Self>) -> Result<Self, String> {
        if !is_driver_name(name) {
            return Err(format!("{name:?} is not the name of a FlexVolume driver"));
        }
        let program = program(folder, name);
        let missing = |error: std::io::Error| {
            format!("no volume plugin matched: {name} ({}: {error})", program.display())
        };
        let found = std::fs::metadata(&program).map_err(missing)?;
        let version = (found.ino(), found.mtime(), found.mtime_nsec());
        if let Some(cached) = cached.filter(|cached| cached.version == version) {
            return Ok(cached.clone());
        }
        let mut driver = Self {
            program,
            version,
            capabilities: DriverCapabilities { attach: true, group: true, resize: true },
            unsupported: Arc::default(),
        };
        match driver.call("init", &[]) {
            Ok(response) => driver.capabilities = capabilities(&response),
            Err(DriverError::NotSupported) => return Err(format!("driver {name}: init: {NOT_SUPPORTED}")),
            Err(DriverError::Failed(reason)) => return Err(format!("driver {name}: {reason}")),
        }
        Ok(driver)
    }

    pub(super) fn call(&self, command: &'static str, parameters: &[&str]) -> Result<Value, DriverError> {
        if self.unsupported.lock().contains(command) {
            return Err(DriverError::NotSupported);
        }
        let arguments = parameters.iter().fold(Arguments::new(&[command]), Arguments::operand);
        let outcome = helper_program::run(self.program.as_os_str(), &arguments, CALL_TIMEOUT);
        let parsed = parse_response(command, &outcome.output);
        match (parsed, outcome.failure) {
            (Err(DriverError::NotSupported), _) => {
                self.unsupported.lock().insert(command);
                Err(DriverError::NotSupported)
            }
            // Reports success but exits with a failure.
            (Ok(_), Some(failure)) => Err(DriverError::Failed(failure)),
            (Err(DriverError::Failed(reason)), Some(failure)) => {
                Err(DriverError::Failed(format!("{reason} ({failure})")))
            }
            (parsed, None) => parsed,
        }
    }
}

/// The path of a driver's program, `vendor~driver/driver`.
pub(super) fn program(folder: &Path, name: &str) -> PathBuf {
    let file = name.rsplit('/').next().unwrap_or(name);
    folder.join(name.replace('/', "~")).join(file)
}

/// `driver` or `vendor/driver`, which become names of folders.
fn is_driver_name(name: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']) && !part.contains('\0');
    name.split('/').count() <= 2 && name.split('/').all(is_plain)
}

fn parse_response(command: &str, output: &str) -> Result<Value, DriverError> {
    let failed = |reason: String| Err(DriverError::Failed(reason));
    let value: Value = match serde_json::from_str(output.trim()) {
        Ok(value) => value,
        Err(error) => return failed(format!("{command}: the driver's response is not JSON: {error}")),
    };
    match field(&value, "status").and_then(Value::as_str) {
        Some("Success") => Ok(value),
        Some(NOT_SUPPORTED) => Err(DriverError::NotSupported),
        status => failed(format!(
            "{command} command failed, status: {}, reason: {}",
            status.unwrap_or_default(),
            field(&value, "message").and_then(Value::as_str).unwrap_or_default()
        )),
    }
}

/// The device in a response, or an empty string.
pub(super) fn device(response: &Value) -> String {
    field(response, "device").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn capabilities(response: &Value) -> DriverCapabilities {
    let declared = field(response, "capabilities");
    let can = |name: &str| {
        declared.and_then(|declared| field(declared, name)).and_then(Value::as_bool).unwrap_or(true)
    };
    DriverCapabilities { attach: can("attach"), group: can("fsGroup"), resize: can("requiresFSResize") }
}

/// Ignores case, because drivers spell keys differently.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parses_responses_like_upstream() {
        let parse = |text: &str| parse_response("mount", text);
        assert_eq!(device(&parse(r#"{"status": "Success", "device": "/dev/x"}"#).unwrap()), "/dev/x");
        assert_eq!(parse(r#"{"status": "Not supported"}"#), Err(DriverError::NotSupported));
        let failed = DriverError::Failed("mount command failed, status: Failure, reason: no disk".to_owned());
        assert_eq!(parse(r#"{"status": "Failure", "message": "no disk"}"#), Err(failed));
        assert!(matches!(parse("oops"), Err(DriverError::Failed(reason)) if reason.contains("not JSON")));
    }

    #[test]
    fn driver_names_stay_below_the_plugin_folder() {
        for (name, expected) in [
            ("acme/disk", true),
            ("disk", true),
            ("acme/my-disk.v1", true),
            ("", false),
            ("..", false),
            ("acme/..", false),
            ("../disk", false),
            ("/disk", false),
            ("a/b/c", false),
            ("acme/-disk", false),
        ] {
            assert_eq!(is_driver_name(name), expected, "{name}");
        }
    }

    #[test]
    fn driver_has_every_capability_that_it_does_not_deny() {
        for (response, attach, group, resize) in [
            (json!({}), true, true, true),
            (json!({"capabilities": {"attach": false}}), false, true, true),
            (json!({"Capabilities": {"fsGroup": false, "requiresFSResize": false}}), true, false, false),
        ] {
            assert_eq!(capabilities(&response), DriverCapabilities { attach, group, resize }, "{response}");
        }
    }
}
