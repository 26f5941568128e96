use std::io::Cursor;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

use tar_writer::{Layer, owner_is_root};

use super::*;

mod tar_writer;

struct Target {
    scratch: tempfile::TempDir,
    lower: Vec<PathBuf>,
}

impl Target {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("root")).unwrap();
        std::fs::create_dir_all(scratch.path().join("outside")).unwrap();
        Self { scratch, lower: Vec::new() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.scratch.path().join("root").join(path)
    }

    fn extract(&self, layer: Layer) -> Result<Extracted, ExtractError> {
        self.extract_within(layer, Limits::default())
    }

    fn extract_within(&self, layer: Layer, limits: Limits) -> Result<Extracted, ExtractError> {
        let archive = Cursor::new(layer.finish());
        extract(archive, &self.path(""), &self.lower, limits).map(|(extracted, _)| extracted)
    }

    /// Fails if anything was made beside the root.
    fn check_outside(&self) {
        let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(names(self.scratch.path()), 2, "an entry beside the root");
        assert_eq!(names(&self.scratch.path().join("outside")), 0, "an entry outside of the root");
    }
}

#[test]
fn entries_never_leave_the_root() {
    let layers = [
        Layer::new().file("../../outside/a", b"x"),
        Layer::new().file("/outside/a", b"x"),
        Layer::new().link("up", "../outside").file("up/a", b"x"),
        Layer::new().link("up", "/../../outside").file("up/a", b"x"),
        Layer::new().link("a", "b").link("b", "../outside").file("a/deep/file", b"x"),
        Layer::new().folder("d").link("d/up", "../../outside").folder("d/up/made").file("d/up/made/a", b"x"),
        Layer::new().link("f", "../outside/a").file("f", b"x"),
        Layer::new().link("f", "../outside").opaque("f"),
        Layer::new().link("f", "../outside").file("f/.wh.a", b""),
    ];
    for layer in layers {
        let target = Target::new();
        // Some of them are errors; none may write outside.
        let _ = target.extract(layer);
        target.check_outside();
    }
}

#[test]
fn hard_link_to_a_file_outside_is_an_error() {
    for link in ["../outside/secret", "/outside/secret", "link/secret"] {
        let target = Target::new();
        std::fs::write(target.scratch.path().join("outside/secret"), "secret").unwrap();
        let layer = Layer::new().link("link", "../outside").hard_link("copy", link);
        assert!(target.extract(layer).is_err(), "{link}");
        assert!(!target.path("copy").exists());
    }
}

#[test]
fn hard_link_to_a_symbolic_link_links_the_link() {
    let target = Target::new();
    std::fs::write(target.scratch.path().join("outside/secret"), "secret").unwrap();
    target.extract(Layer::new().link("link", "../outside/secret").hard_link("copy", "link")).unwrap();
    assert!(target.path("copy").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn loop_of_symbolic_links_is_an_error() {
    let target = Target::new();
    assert!(target.extract(Layer::new().link("a", "b").link("b", "a").file("a/x/file", b"")).is_err());
}

#[test]
fn parent_through_a_link_to_a_lower_folder_is_made_in_this_layer() {
    let target = Target::new();
    target.extract(Layer::new().folder("var").link("var/run", "/run").file("var/run/app/pid", b"1")).unwrap();
    assert_eq!(std::fs::read(target.path("run/app/pid")).unwrap(), b"1");
}

#[test]
fn later_entry_replaces_an_earlier_one_of_another_kind() {
    let target = Target::new();
    let layer =
        Layer::new().file("d/a/b/c", b"x").file("d/e", b"y").file("d", b"file").file("f", b"1").folder("f");
    target.extract(layer).unwrap();
    assert_eq!(std::fs::read(target.path("d")).unwrap(), b"file");
    assert!(target.path("f").is_dir());
}

#[test]
fn limits_of_entries_and_bytes_end_the_extraction() {
    let limits = Limits { entries: 2, bytes: 10 };
    let error = |layer| Target::new().extract_within(layer, limits).unwrap_err();
    let many = Layer::new().file("a", b"").file("b", b"").file("c", b"");
    assert!(matches!(error(many), ExtractError::TooManyEntries(2)));
    assert!(matches!(error(Layer::new().file("a", b"12345678901")), ExtractError::TooLarge(10)));
}

#[test]
fn whiteout_without_a_name_is_an_error() {
    for name in [".wh.", "d/.wh..", "d/.wh..."] {
        assert!(Target::new().extract(Layer::new().folder("d").file(name, b"")).is_err(), "{name}");
    }
}

#[test]
fn deep_trees_are_replaced() {
    let target = Target::new();
    let deep = format!("d/{}", "x/".repeat(900));
    target.extract(Layer::new().folder(&deep).file("d", b"")).unwrap();
    assert!(target.path("d").is_file());
}

#[test]
#[ignore = "needs root"]
fn whiteouts_hide_lower_files_only() {
    owner_is_root();
    let target = Target::new();
    let layer = Layer::new()
        .file("d/kept", b"x")
        .file("d/.wh.kept", b"")
        .file("d/.wh.gone", b"")
        .file("o/early", b"x")
        .opaque("o")
        .file("o/late", b"y")
        .file(".wh.again", b"")
        .file("again/new", b"z")
        .file(".wh..wh.plnk", b"");
    target.extract(layer).unwrap();
    assert!(target.path("d/kept").is_file());
    let gone = target.path("d/gone").symlink_metadata().unwrap();
    assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
    assert!(target.path("o/early").exists() && target.path("o/late").exists());
    assert_eq!(opaque(&target.path("o")), Some(b"y".to_vec()));
    assert_eq!(opaque(&target.path("d")), None);
    assert!(!target.path(".wh..wh.plnk").exists());
    target.check_outside();
}

#[test]
#[ignore = "needs root"]
fn folder_that_replaces_a_whiteout_hides_the_lower_folder() {
    owner_is_root();
    let target = Target::new();
    target.extract(Layer::new().file(".wh.d", b"").folder("d").file("d/a", b"")).unwrap();
    assert_eq!(opaque(&target.path("d")), Some(b"y".to_vec()));
    let target = Target::new();
    target.extract(Layer::new().folder("d").file("d/a", b"").file(".wh.d", b"")).unwrap();
    assert_eq!(opaque(&target.path("d")), Some(b"y".to_vec()));
    assert!(target.path("d/a").exists());
}

#[test]
#[ignore = "needs root"]
fn metadata_of_the_archive_is_kept() {
    owner_is_root();
    let target = Target::new();
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let layer = Layer::new()
        .attributes(&[
            ("security.capability", &capability),
            ("trusted.overlay.opaque", b"y"),
            ("user.a", b"b"),
        ])
        .file_like("bin/tool", b"tool", 0o4755, 7, 8)
        .attributes(&[("trusted.overlay.redirect", b"/etc")])
        .folder("d")
        .device("null", 1, 3)
        .link("l", "bin/tool");
    target.extract(layer).unwrap();
    let tool = target.path("bin/tool");
    let stat = tool.metadata().unwrap();
    assert_eq!((stat.mode() & 0o7777, stat.uid(), stat.gid(), stat.mtime()), (0o4755, 7, 8, 10));
    assert_eq!(attribute(&tool, "security.capability"), Some(capability.to_vec()));
    assert_eq!(attribute(&tool, "user.a"), Some(b"b".to_vec()));
    assert_eq!(attribute(&tool, "trusted.overlay.opaque"), None);
    assert_eq!(attribute(&target.path("d"), "trusted.overlay.redirect"), None);
    assert_eq!(target.path("d").metadata().unwrap().mtime(), 10);
    assert_eq!(target.path("l").symlink_metadata().unwrap().mtime(), 10);
    let null = target.path("null").symlink_metadata().unwrap();
    assert_eq!((rustix::fs::major(null.rdev()), rustix::fs::minor(null.rdev())), (1, 3));
}

#[test]
#[ignore = "needs root"]
fn missing_parent_copies_the_folder_of_the_nearest_lower_layer() {
    owner_is_root();
    let mut target = Target::new();
    let lower = |name: &str, mode: u32, uid: u32| {
        let root = target.scratch.path().join("outside").join(name);
        std::fs::create_dir_all(root.join("srv/data")).unwrap();
        std::os::unix::fs::chown(root.join("srv/data"), Some(uid), Some(uid)).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(root.join("srv/data"), permissions).unwrap();
        root
    };
    target.lower = vec![lower("top", 0o1770, 5), lower("bottom", 0o700, 6)];
    symlink("/", target.scratch.path().join("outside/top/srv/link")).unwrap();
    target.extract(Layer::new().file("srv/data/file", b"x").file("srv/link/file", b"x")).unwrap();
    let stat = target.path("srv/data").metadata().unwrap();
    assert_eq!((stat.mode() & 0o7777, stat.uid(), stat.gid()), (0o1770, 5, 5));
    assert_eq!(target.path("srv/link").symlink_metadata().unwrap().mode() & 0o7777, 0o755);
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = rustix::fs::lgetxattr(path, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}

fn opaque(path: &Path) -> Option<Vec<u8>> {
    attribute(path, "trusted.overlay.opaque")
}
