//! IDs and names of this machine.

use std::path::Path;

use model::MachineIdentity;

use crate::machine::startup::swap_capacity;

/// `root` is usually `/`.
pub(super) fn identity(root: &Path) -> MachineIdentity {
    MachineIdentity {
        machine_id: read_first(root, &["etc/machine-id", "var/lib/dbus/machine-id"]),
        system_uuid: read_first(
            root,
            &[
                "sys/class/dmi/id/product_uuid",
                "proc/device-tree/system-id",
                "proc/device-tree/vm,uuid",
                "etc/machine-id",
            ],
        ),
        boot_id: read_first(root, &["proc/sys/kernel/random/boot_id"]),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        os_image: os_image(&read_first(root, &["etc/os-release", "usr/lib/os-release"])),
        swap_bytes: swap_capacity(),
    }
}

/// The content of the first readable file.
fn read_first(root: &Path, files: &[&str]) -> String {
    let read = |file: &&str| std::fs::read_to_string(root.join(file)).ok();
    let text = files.iter().find_map(read).unwrap_or_default();
    text.trim_end_matches('\0').trim().to_owned()
}

/// The pretty name of the operating system, or `Linux` if the file has none.
fn os_image(os_release: &str) -> String {
    if os_release.is_empty() {
        return "Unknown".to_owned();
    }
    let name = os_release.lines().find_map(|line| line.split_once("PRETTY_NAME=")).map(|(_, name)| name);
    name.map_or("Linux", |name| name.trim_matches('"')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ids_of_a_machine() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("var/lib/dbus/machine-id", "m-1\n");
        write("proc/device-tree/vm,uuid", "u-1\0");
        write("proc/sys/kernel/random/boot_id", "b-1\n");
        write("usr/lib/os-release", "NAME=Debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n");
        let found = identity(scratch.path());
        assert_eq!((found.machine_id.as_str(), found.system_uuid.as_str()), ("m-1", "u-1"));
        assert_eq!((found.boot_id.as_str(), found.os_image.as_str()), ("b-1", "Debian GNU/Linux 12"));
        assert!(!found.kernel.is_empty());
    }

    #[test]
    fn os_image_without_a_name_is_linux() {
        assert_eq!((os_image("ID=x\n").as_str(), os_image("").as_str()), ("Linux", "Unknown"));
        assert_eq!(os_image("PRETTY_NAME=Plain\n"), "Plain");
    }
}
