//! Where the cgroup hierarchies of this machine are.

use std::path::PathBuf;

/// How cgroups are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupLayout {
    /// One hierarchy with all controllers.
    V2 { mount: PathBuf },
    /// A hierarchy per controller or group of controllers. A hierarchy of version 2 beside them has no limits.
    V1 { hierarchies: Vec<Hierarchy> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Controllers, or `name=systemd`.
    pub controllers: Vec<String>,
    pub mount: PathBuf,
}

/// Options of a mount that are no controllers.
const OTHER_OPTIONS: &[&str] = &["rw", "ro", "xattr", "clone_children", "noprefix", "all", "none"];

impl CgroupLayout {
    /// From the content of `/proc/self/mountinfo`; none if cgroups are not mounted.
    #[must_use]
    pub fn parse(mountinfo: &str) -> Option<Self> {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        let mut v2 = None;
        for line in mountinfo.lines() {
            let Some((place, filesystem)) = line.split_once(" - ") else { continue };
            let Some(mount) = place.split(' ').nth(4).map(unescape) else { continue };
            let mut fields = filesystem.split(' ');
            let (kind, options) = (fields.next(), fields.nth(1).unwrap_or_default());
            match kind {
                Some("cgroup2") => v2 = v2.or(Some(mount)),
                Some("cgroup") => {
                    let ignored = |option: &&str| {
                        OTHER_OPTIONS.contains(option) || option.starts_with("release_agent=")
                    };
                    let controllers: Vec<String> =
                        options.split(',').filter(|option| !ignored(option)).map(str::to_owned).collect();
                    let known = |other: &Hierarchy| other.controllers == controllers;
                    // The same hierarchy may be mounted at several places.
                    if !hierarchies.iter().any(known) {
                        hierarchies.push(Hierarchy { controllers, mount });
                    }
                }
                _ => {}
            }
        }
        if hierarchies
            .iter()
            .any(|hierarchy| !hierarchy.controllers.iter().all(|name| name.starts_with("name=")))
        {
            return Some(Self::V1 { hierarchies });
        }
        v2.map(|mount| Self::V2 { mount })
    }
}

/// The kernel writes some characters as octal numbers.
fn unescape(path: &str) -> PathBuf {
    PathBuf::from(path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_with_both_versions_uses_version_1() {
        let layout = CgroupLayout::parse(
            "30 20 0:1 / /sys/fs/cgroup/cpu,cpuacct rw shared:2 - cgroup cgroup rw,cpu,cpuacct\n\
             31 20 0:2 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
             32 20 0:3 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             33 20 0:1 / /again rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        let hierarchy = |controllers: &[&str], mount: &str| Hierarchy {
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            mount: mount.into(),
        };
        assert_eq!(
            layout,
            Some(CgroupLayout::V1 {
                hierarchies: vec![
                    hierarchy(&["cpu", "cpuacct"], "/sys/fs/cgroup/cpu,cpuacct"),
                    hierarchy(&["name=systemd"], "/sys/fs/cgroup/systemd"),
                ]
            })
        );
    }

    #[test]
    fn machine_with_version_2_alone_is_recognised() {
        let layout = CgroupLayout::parse("30 20 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
        assert_eq!(layout, Some(CgroupLayout::V2 { mount: "/sys/fs/cgroup".into() }));
        assert_eq!(CgroupLayout::parse("20 1 0:1 / / rw - ext4 /dev/vda rw\n"), None);
    }
}
