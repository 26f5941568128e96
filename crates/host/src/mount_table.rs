//! The kernel's mount table (`/proc/<pid>/mountinfo`).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ports::host::pod_folders::FileError;

use crate::errors::OnPath;

/// The mount table of this process.
pub(crate) const OWN: &str = "/proc/self/mountinfo";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `major:minor` of the file system.
    pub(crate) device: String,
    pub(crate) mount_point: PathBuf,
    /// Whether mounts below it propagate to peer mounts.
    pub(crate) shared: bool,
    pub(crate) fs_type: String,
    /// Options of the file system, for example the controllers of a cgroup hierarchy.
    pub(crate) super_options: String,
}

impl Mount {
    /// The SELinux label of the mount; without one, files have their own labels.
    pub(crate) fn label(&self) -> Option<&str> {
        label_in(&self.super_options)
    }
}

/// The SELinux label in mount options.
pub(crate) fn label_in(options: &str) -> Option<&str> {
    // A label with commas is quoted.
    let mut is_quoted = false;
    let mut options = options.split(|letter| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    });
    options.find_map(|option| option.strip_prefix("context=")).map(|label| label.trim_matches('"'))
}

/// Reads a mount table, in mount order.
pub(crate) fn read(file: &Path) -> Result<Vec<Mount>, FileError> {
    let content = std::fs::read(file).on_path("read mount table", file)?;
    parse(&content).on_path("read mount table", file)
}

/// The current mounts of this process.
pub(crate) fn table() -> Result<Vec<Mount>, FileError> {
    read(Path::new(OWN))
}

/// The topmost mount at `path`.
pub(crate) fn mounted_at<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().rfind(|mount| mount.mount_point == path)
}

/// The mounts at or below `path`.
pub(crate) fn at_or_below<'a>(mounts: &'a [Mount], path: &Path) -> Vec<&'a Mount> {
    mounts.iter().filter(|mount| mount.mount_point.starts_with(path)).collect()
}

/// The mount that contains `path`.
pub(crate) fn containing<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // The last of several mounts on one mount point is on top, and `max_by_key` returns the last maximum.
    mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.components().count())
}

/// Fails on a malformed line, because an overlooked mount could lead to data loss.
fn parse(content: &[u8]) -> Result<Vec<Mount>, io::Error> {
    content
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse_line(line).ok_or_else(|| {
                let line = String::from_utf8_lossy(line);
                io::Error::new(io::ErrorKind::InvalidData, format!("malformed line {line:?}"))
            })
        })
        .collect()
}

/// Parses `36 35 98:0 /root /mount/point rw,noatime shared:1 master:2 - ext3 /dev/root rw,errors=continue`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = fields.nth(2)?;
    let mount_point = fields.nth(1)?;
    let _options = fields.next()?;
    let mut shared = false;
    loop {
        match fields.next()? {
            b"-" => break,
            tag => shared |= tag.starts_with(b"shared:"),
        }
    }
    let fs_type = fields.next()?;
    let _source = fields.next()?;
    // Options are last; text after an unexpected space is ignored.
    let super_options = fields.next().unwrap_or_default();
    Some(Mount {
        device: String::from_utf8_lossy(device).into_owned(),
        mount_point: PathBuf::from(OsString::from_vec(unescape(mount_point))),
        shared,
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        super_options: String::from_utf8_lossy(super_options).into_owned(),
    })
}

/// Decodes octal escapes such as `\040`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        match tail {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] if *first == b'\\' => {
                decoded.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
30 22 0:25 / /a\\040b/c\\134d rw master:3 shared:7 - tmpfs tmpfs rw,size=1k\n\
31 22 0:26 / /a rw - tmpfs none rw\n\
32 31 0:27 / /a rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn parses_escapes_tags_and_options() {
        let mounts = parse(TABLE.as_bytes()).unwrap();
        assert_eq!(
            mounts[1],
            Mount {
                device: "0:25".into(),
                mount_point: "/a b/c\\d".into(),
                shared: true,
                fs_type: "tmpfs".into(),
                super_options: "rw,size=1k".into(),
            }
        );
        assert!(!mounts[2].shared);
    }

    #[test]
    fn finds_the_label_of_a_mount() {
        for (options, expected) in [
            ("rw", None),
            ("rw,seclabel", None),
            ("rw,context=u:r:t:s0", Some("u:r:t:s0")),
            ("rw,context=\"u:r:t:s0:c1,c2\",errors=x", Some("u:r:t:s0:c1,c2")),
            ("context=u:r:t", Some("u:r:t")),
            ("rw,fscontext=u:r:t", None),
            ("rw,x=\"a,context=b\",context=c", Some("c")),
        ] {
            let line = format!("31 22 0:26 / /a rw - ext4 none {options}\n");
            assert_eq!(parse(line.as_bytes()).unwrap()[0].label(), expected, "{options}");
        }
    }

    #[test]
    fn finds_mounts_by_whole_path_components() {
        let mounts = parse(TABLE.as_bytes()).unwrap();
        assert_eq!(at_or_below(&mounts, Path::new("/a")).len(), 2);
        assert_eq!(at_or_below(&mounts, Path::new("/a b")).len(), 1);
        assert_eq!(containing(&mounts, Path::new("/a/x")).unwrap().device, "0:27");
        assert_eq!(containing(&mounts, Path::new("/ab")).unwrap().device, "8:1");
    }

    #[test]
    fn malformed_line_is_an_error() {
        assert!(parse(b"22 1 8:1 / /\n").is_err());
        assert!(parse(b"22 1 8:1 / / rw shared:1\n").is_err());
        assert!(parse(b"").unwrap().is_empty());
    }

    #[test]
    fn reads_the_mount_table_of_this_machine() {
        let mounts = read(Path::new(OWN)).unwrap();
        assert!(mounts.iter().any(|mount| mount.mount_point == Path::new("/proc")));
    }
}
