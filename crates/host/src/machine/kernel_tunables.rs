//! Kernel settings that the kubelet requires.

use std::path::Path;

/// Handling of a setting that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTunableBehaviour {
    Set,
    /// Report it and do not change it (`protectKernelDefaults`).
    Protect,
}

/// Overcommitted memory leads to an OOM kill, not to failed allocations or a panic; a machine that panics reboots; and
/// there are enough keys for many containers.
const REQUIRED: [(&str, i64); 6] = [
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// Checks or sets the settings below `folder`, usually `/proc/sys`. Returns a message per setting that still differs.
#[must_use]
pub fn kernel_tunables(folder: &Path, behaviour: KernelTunableBehaviour) -> Vec<String> {
    REQUIRED
        .iter()
        .filter_map(|(name, required)| check_or_set(folder, name, *required, behaviour).err())
        .collect()
}

fn check_or_set(
    folder: &Path,
    name: &str,
    required: i64,
    behaviour: KernelTunableBehaviour,
) -> Result<(), String> {
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("read {name}: {error}"))?;
    let value = text.trim();
    if value.parse() == Ok(required) {
        return Ok(());
    }
    match behaviour {
        KernelTunableBehaviour::Protect => {
            Err(format!("invalid kernel flag: {name}, expected value: {required}, actual value: {value}"))
        }
        KernelTunableBehaviour::Set => std::fs::write(&path, required.to_string())
            .map_err(|error| format!("set {name} from {value} to {required}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        for (name, required) in REQUIRED {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{required}\n")).unwrap();
        }
        scratch
    }

    #[test]
    fn sets_only_differing_values() {
        let machine = machine();
        let path = machine.path().join("kernel/panic");
        std::fs::write(&path, "0\n").unwrap();
        assert_eq!(kernel_tunables(machine.path(), KernelTunableBehaviour::Set), Vec::<String>::new());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "10");
        let untouched = std::fs::read_to_string(machine.path().join("vm/panic_on_oom")).unwrap();
        assert_eq!(untouched, "0\n");
    }

    #[test]
    fn protected_settings_are_reported_and_kept() {
        let machine = machine();
        assert_eq!(kernel_tunables(machine.path(), KernelTunableBehaviour::Protect), Vec::<String>::new());
        std::fs::write(machine.path().join("vm/overcommit_memory"), "2\n").unwrap();
        assert_eq!(
            kernel_tunables(machine.path(), KernelTunableBehaviour::Protect),
            ["invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 2"]
        );
        assert_eq!(std::fs::read_to_string(machine.path().join("vm/overcommit_memory")).unwrap(), "2\n");
    }

    #[test]
    fn missing_settings_are_reported() {
        let machine = machine();
        std::fs::remove_dir_all(machine.path().join("kernel/keys")).unwrap();
        let problems = kernel_tunables(machine.path(), KernelTunableBehaviour::Set);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("read kernel/keys/root_maxkeys: "), "{problems:?}");
    }
}
