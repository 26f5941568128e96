use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;

use super::*;
use crate::images::manifest::Descriptor;
use crate::images::test_archive::{Archive, layer};
use crate::launcher::{IdMappings, IdRange, UserNamespace};

fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts: run it as root");
}

struct Scratch {
    folder: tempfile::TempDir,
    store: ImageStore,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            ImageStore::open(&folder.path().join("store"), vec!["podward.test/pinned*".to_owned()]).unwrap();
        Self { folder, store }
    }

    /// The store as another process sees it.
    fn reopened(&self) -> ImageStore {
        ImageStore::open(&self.folder.path().join("store"), Vec::new()).unwrap()
    }

    fn entries(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.folder.path().join("store").join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for owner in self.store.root_owners().unwrap_or_default() {
            let _ = self.store.unmount_root(&owner);
        }
    }
}

fn two_layers(name: &str) -> Archive {
    let first =
        layer(&[("etc/", ""), ("etc/release", "1"), ("etc/gone", "x"), ("bin/", ""), ("bin/tool", "tool")]);
    let second = layer(&[("etc/release", "2"), ("etc/.wh.gone", "")]);
    Archive::default().image(
        name,
        &[first, second],
        &json!({"Env": ["A=b"], "User": "7", "Cmd": ["/bin/tool"]}),
    )
}

#[test]
#[ignore = "needs root"]
fn imported_image_is_found_by_name_id_and_prefix() {
    require_root();
    let scratch = Scratch::new();
    let imported = scratch.store.import(&*two_layers("podward.test/pinned:1").oci()).unwrap();
    let image = &imported.images[0];
    assert_eq!(image.tags, ["podward.test/pinned:1"]);
    assert!(image.pinned && image.size > 0);
    assert_eq!((image.config.env.as_slice(), image.config.user.as_str()), (&["A=b".to_owned()][..], "7"));
    let digest = image.digests[0].clone();
    for name in ["podward.test/pinned:1", &digest, image.id.as_str(), image.id.hex(), &image.id.hex()[..12]] {
        assert_eq!(scratch.reopened().resolve(name).unwrap().unwrap().id, image.id, "{name}");
    }
    for name in ["", "sha256:", "podward.test/pinned", "podward.test/pinned:2"] {
        assert!(scratch.store.resolve(name).unwrap().is_none(), "{name}");
    }
}

#[test]
#[ignore = "needs root"]
fn docker_archive_and_oci_layout_give_the_same_image() {
    require_root();
    let archive = two_layers("podward.test/a:1");
    let ids = [archive.oci(), archive.docker()].map(|bytes| {
        let scratch = Scratch::new();
        let imported = scratch.store.import(&*bytes).unwrap();
        assert_eq!(imported.images[0].tags, ["podward.test/a:1"]);
        (imported.images[0].id.clone(), scratch.entries("layers"))
    });
    assert_eq!(ids[0], ids[1]);
}

#[test]
#[ignore = "needs root"]
fn mounted_root_shows_all_layers_and_keeps_them_after_removal() {
    require_root();
    let scratch = Scratch::new();
    scratch.store.import(&*two_layers("podward.test/a:1").oci()).unwrap();
    let root = scratch.store.mount_root("podward.test/a:1", "c1").unwrap();
    assert_eq!(fs::read_to_string(root.join("etc/release")).unwrap(), "2");
    assert!(!root.join("etc/gone").exists());
    assert_eq!(root.metadata().unwrap().mode() & 0o7777, 0o755);
    fs::write(root.join("bin/tool"), "changed").unwrap();
    assert_eq!(scratch.store.mount_root("podward.test/a:1", "c1").unwrap(), root);
    assert_eq!(scratch.store.writable_usage("c1").unwrap().inodes, 2);

    assert!(scratch.store.remove("podward.test/a:1").unwrap());
    assert!(!scratch.store.remove("podward.test/a:1").unwrap());
    assert_eq!(fs::read_to_string(root.join("bin/tool")).unwrap(), "changed");
    assert_eq!((scratch.entries("layers").len(), scratch.entries("blobs").len()), (2, 0));

    scratch.store.unmount_root("c1").unwrap();
    scratch.store.unmount_root("c1").unwrap();
    for folder in ["layers", "blobs", "staging", "roots", "images"] {
        assert!(scratch.entries(folder).is_empty(), "{folder}");
    }
}

#[test]
#[ignore = "needs root"]
fn view_of_an_image_is_read_only() {
    require_root();
    let scratch = Scratch::new();
    let one = Archive::default().image("podward.test/one:1", &[layer(&[("f", "1")])], &json!({}));
    let none = Archive::default().image("podward.test/none:1", &[], &json!({}));
    for archive in [two_layers("podward.test/two:1"), one, none] {
        scratch.store.import(&*archive.oci()).unwrap();
    }
    for (image, owner) in [("two", "v2"), ("one", "v1"), ("none", "v0")] {
        let view = scratch.store.mount_view(&format!("podward.test/{image}:1"), owner).unwrap();
        let error = fs::write(view.join("new"), "").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{image}");
    }
    let root = scratch.store.mount_root("podward.test/none:1", "c0").unwrap();
    fs::write(root.join("new"), "").unwrap();
}

/// A process in a new user namespace, whose file can be used while it lives.
struct NamespaceHolder {
    process: std::process::Child,
    user: UserNamespace,
}

impl NamespaceHolder {
    fn new() -> Self {
        let mut process = std::process::Command::new("unshare")
            .args(["--user", "cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The process echoes after it has entered the namespace.
        std::io::Write::write_all(process.stdin.as_mut().unwrap(), b"x").unwrap();
        std::io::Read::read_exact(process.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let proc = Path::new("/proc").join(process.id().to_string());
        for map in ["uid_map", "gid_map"] {
            fs::write(proc.join(map), "0 300000 65536").unwrap();
        }
        let range = IdRange { container: 0, host: 300_000, length: 65_536 };
        let user = UserNamespace { path: proc.join("ns/user"), ids: IdMappings { uids: range, gids: range } };
        Self { process, user }
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "needs root"]
fn owners_of_root_and_view_are_mapped_for_a_user_namespace() {
    require_root();
    let scratch = Scratch::new();
    scratch.store.import(&*two_layers("podward.test/a:1").oci()).unwrap();
    let holder = NamespaceHolder::new();
    let root = scratch.store.mount_root_for("podward.test/a:1", "c1", Some(&holder.user)).unwrap();
    let view = scratch.store.mount_view_for("podward.test/a:1", "v1", Some(&holder.user)).unwrap();
    drop(holder);
    for path in [root.clone(), root.join("etc/release"), root.join("bin/tool"), view.join("etc/release")] {
        let status = fs::metadata(&path).unwrap();
        assert_eq!((status.uid(), status.gid()), (300_000, 300_000), "{path:?}");
    }
    // A copy to the writable layer keeps the owner, and the layer on disk its own.
    fs::write(root.join("bin/tool"), "changed").unwrap();
    assert_eq!(fs::metadata(root.join("bin/tool")).unwrap().uid(), 300_000);
    let plain = scratch.store.mount_root("podward.test/a:1", "c2").unwrap();
    assert_eq!(fs::metadata(plain.join("bin/tool")).unwrap().uid(), 0);
    assert_eq!(fs::read_to_string(plain.join("bin/tool")).unwrap(), "tool");
    for owner in ["c1", "v1"] {
        let left = scratch.folder.path().join("store/roots").join(owner).join("layers");
        assert!(!left.exists(), "the mapped layers were mounted for a moment only");
    }
}

#[test]
#[ignore = "needs root"]
fn image_with_many_layers_is_mounted() {
    require_root();
    let scratch = Scratch::new();
    let layers: Vec<_> =
        (0..70).map(|n| layer(&[(&format!("f{n}"), "x"), ("last", &n.to_string())])).collect();
    scratch
        .store
        .import(&*Archive::default().image("podward.test/many:1", &layers, &json!({})).oci())
        .unwrap();
    let root = scratch.store.mount_root("podward.test/many:1", "c1").unwrap();
    assert_eq!(fs::read_to_string(root.join("last")).unwrap(), "69");
    assert_eq!(fs::read_dir(root).unwrap().count(), 71);
}

#[test]
#[ignore = "needs root"]
fn wrong_content_is_refused_and_leaves_nothing() {
    require_root();
    let good = two_layers("podward.test/a:1");
    let cases = [
        ("diff id", good.clone().replace_in_config("diff_ids", &json!([Digest::of(b"x"), Digest::of(b"y")]))),
        ("number of layers", good.clone().replace_in_config("diff_ids", &json!([Digest::of(b"x")]))),
        ("content of a blob", good.clone().damage_layer()),
        ("media type", good.with_layer_type("application/vnd.cncf.helm.chart.content.v1.tar+gzip")),
    ];
    for (name, archive) in cases {
        let scratch = Scratch::new();
        assert!(scratch.store.import(&*archive.oci()).is_err(), "{name}");
        assert!(scratch.store.list().unwrap().is_empty(), "{name}");
        scratch.store.collect().unwrap();
        for folder in ["layers", "blobs", "staging", "images"] {
            let left = scratch.entries(folder);
            assert!(left.is_empty(), "{name}: {folder} has {left:?}");
        }
    }
}

/// A file system of 2 MiB.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", flags, c"size=2m").unwrap();
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
#[ignore = "needs root"]
fn full_disk_ends_the_import_and_leaves_room_for_smaller_images() {
    require_root();
    let disk = SmallDisk::mount();
    let store = ImageStore::open(&disk.0.path().join("store"), Vec::new()).unwrap();
    let large = "x".repeat(4 << 20);
    // One is too large for the blob, the other one is full of holes until it is unpacked.
    for content in [large, "\0".repeat(1 << 20) + &"y".repeat(1 << 19)] {
        let archive =
            Archive::default().image("podward.test/a:1", &[layer(&[("file", &content)])], &json!({}));
        let error = store.import(&*archive.oci()).unwrap_err();
        let text = crate::errors::describe(&error);
        assert!(text.contains("No space left on device"), "{text}");
        assert!(store.list().unwrap().is_empty());
        store.collect().unwrap();
        assert_eq!(store.usage().unwrap().bytes, 0);
    }
    let imported = store.import(&*two_layers("podward.test/a:1").oci()).unwrap();
    assert_eq!(imported.images.len(), 1);
}

#[test]
#[ignore = "needs root"]
fn moved_tag_leaves_the_old_image_with_its_digest() {
    require_root();
    let scratch = Scratch::new();
    let old = scratch.store.import(&*two_layers("podward.test/a:1").oci()).unwrap();
    let other = Archive::default().image("podward.test/a:1", &[layer(&[("f", "1")])], &json!({}));
    let new = scratch.store.import(&*other.oci()).unwrap();
    let old = scratch.store.resolve(old.images[0].id.as_str()).unwrap().unwrap();
    assert!(old.tags.is_empty());
    assert_eq!(old.digests.len(), 1);
    assert_eq!(scratch.store.resolve("podward.test/a:1").unwrap().unwrap().id, new.images[0].id);
}

#[test]
#[ignore = "needs root"]
fn incomplete_content_is_removed_at_start_unless_a_pull_runs() {
    require_root();
    let scratch = Scratch::new();
    let staging = scratch.folder.path().join("store/staging");
    let orphan = scratch.folder.path().join("store/layers").join("a".repeat(64));
    for folder in [&staging, &orphan] {
        fs::create_dir_all(folder.join("1-2/fs")).unwrap();
    }
    let running = scratch.store.begin_use().unwrap();
    scratch.reopened();
    assert!(orphan.exists() && staging.join("1-2").exists());
    drop(running);
    scratch.reopened();
    assert!(!orphan.exists() && !staging.join("1-2").exists());
}

#[test]
fn names_of_roots_cannot_leave_the_folder() {
    let scratch = Scratch::new();
    for owner in ["", "..", ".", "a/b", "../a", ".hidden", &"a".repeat(200)] {
        let error = scratch.store.mount_root("podward.test/a:1", owner).unwrap_err();
        assert!(matches!(error, StoreError::InvalidOwner(_)), "{owner}");
    }
}

#[test]
fn interrupted_blob_is_continued_and_verified() {
    let scratch = Scratch::new();
    let content = b"0123456789";
    let descriptor = |digest: Digest| Descriptor {
        media_type: String::new(),
        digest,
        size: 10,
        platform: None,
        annotations: Default::default(),
    };
    let good = descriptor(Digest::of(content));
    let blobs = scratch.store.blobs();
    let mut ingest = blobs.ingest(&good).unwrap().unwrap();
    ingest.write(&content[..4]).unwrap();
    drop(ingest);
    let mut ingest = blobs.ingest(&good).unwrap().unwrap();
    assert_eq!(ingest.offset(), 4);
    ingest.write(&content[4..]).unwrap();
    ingest.commit().unwrap();
    assert_eq!(blobs.document(&good).unwrap(), content);
    assert!(blobs.ingest(&good).unwrap().is_none());

    let wrong = descriptor(Digest::of(b"something else"));
    let mut ingest = blobs.ingest(&wrong).unwrap().unwrap();
    ingest.write(content).unwrap();
    assert!(matches!(ingest.commit(), Err(StoreError::WrongDigest { .. })));
    let mut ingest = blobs.ingest(&wrong).unwrap().unwrap();
    assert_eq!(ingest.offset(), 0, "wrong bytes are not continued");
    assert!(matches!(ingest.write(b"12345678901"), Err(StoreError::WrongSize { .. })));
}

#[test]
#[ignore = "needs root"]
fn guest_keeps_layers_and_owners_do_not_see_its_roots() {
    require_root();
    let scratch = Scratch::new();
    scratch.store.import(&*two_layers("podward.test/a:1").oci()).unwrap();
    let guest = ImageStore::open_as_guest(scratch.store.folder(), "r1").unwrap();
    let other = ImageStore::open_as_guest(scratch.store.folder(), "r2").unwrap();
    let root = guest.mount_root("podward.test/a:1", "c1").unwrap();
    assert_eq!(guest.root_owners().unwrap(), ["c1"]);
    assert!(scratch.store.root_owners().unwrap().is_empty());
    assert!(other.root_owners().unwrap().is_empty());
    assert!(scratch.store.remove("podward.test/a:1").unwrap());
    assert_eq!(fs::read_to_string(root.join("etc/release")).unwrap(), "2");
    guest.unmount_root("c1").unwrap();
    assert!(scratch.entries("roots").is_empty());
    assert!(scratch.entries("layers").is_empty());
    assert!(ImageStore::open_as_guest(scratch.store.folder(), "../x").is_err());
}
