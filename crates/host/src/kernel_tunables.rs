//! Settings of the kernel that a node relies on.

use std::path::Path;

/// What to do about a setting that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunables {
    /// Set it.
    Set,
    /// Leave it and tell (`protectKernelDefaults`).
    Protect,
}

/// Overcommitted memory ends in a kill of the right process, not in failed allocations or a halted machine; a
/// machine that panics comes back; and there are keys for many containers.
const WANTED: [(&str, i64); 6] = [
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// Brings the settings below `folder`, such as `/proc/sys`, in line. Returns what is not in line after that.
#[must_use]
pub fn kernel_tunables(folder: &Path, behaviour: Tunables) -> Vec<String> {
    WANTED.iter().filter_map(|(name, wanted)| settle(folder, name, *wanted, behaviour).err()).collect()
}

fn settle(folder: &Path, name: &str, wanted: i64, behaviour: Tunables) -> Result<(), String> {
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("read {name}: {error}"))?;
    let value = text.trim();
    if value.parse() == Ok(wanted) {
        return Ok(());
    }
    match behaviour {
        Tunables::Protect => {
            Err(format!("invalid kernel flag: {name}, expected value: {wanted}, actual value: {value}"))
        }
        Tunables::Set => std::fs::write(&path, wanted.to_string())
            .map_err(|error| format!("set {name} from {value} to {wanted}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        for (name, wanted) in WANTED {
            let path = scratch.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{wanted}\n")).unwrap();
        }
        scratch
    }

    #[test]
    fn sets_what_differs_and_only_that() {
        let machine = machine();
        let path = machine.path().join("kernel/panic");
        std::fs::write(&path, "0\n").unwrap();
        assert_eq!(kernel_tunables(machine.path(), Tunables::Set), Vec::<String>::new());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "10");
        let untouched = std::fs::read_to_string(machine.path().join("vm/panic_on_oom")).unwrap();
        assert_eq!(untouched, "0\n");
    }

    #[test]
    fn protected_settings_are_named_and_kept() {
        let machine = machine();
        assert_eq!(kernel_tunables(machine.path(), Tunables::Protect), Vec::<String>::new());
        std::fs::write(machine.path().join("vm/overcommit_memory"), "2\n").unwrap();
        assert_eq!(
            kernel_tunables(machine.path(), Tunables::Protect),
            ["invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 2"]
        );
        assert_eq!(std::fs::read_to_string(machine.path().join("vm/overcommit_memory")).unwrap(), "2\n");
    }

    #[test]
    fn what_the_kernel_lacks_is_told() {
        let machine = machine();
        std::fs::remove_dir_all(machine.path().join("kernel/keys")).unwrap();
        let problems = kernel_tunables(machine.path(), Tunables::Set);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("read kernel/keys/root_maxkeys: "), "{problems:?}");
    }
}
