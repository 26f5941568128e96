//! Test images: OCI image archives written from files, without a registry or an image builder.
//!
//! An archive carries both an OCI layout and a docker-style `manifest.json`, so `ctr images import`
//! of containerd 1.6 and 2.x reads it. Layers are plain tars with fixed times: the same input gives
//! the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

mod archive;
mod critest;

pub use archive::write_archive;
pub use critest::{DIGEST_IMAGE, write_critest_images};

/// The sandbox image of the private containerd.
pub const PAUSE: &str = "podward.test/pause:1";
pub const DEMO: &str = "podward.test/demo:1";
/// The demo program as another image, for tests that change a pod's image.
pub const DEMO_2: &str = "podward.test/demo:2";
/// Busybox with `/bin/sh` and a link for each applet.
pub const BUSYBOX: &str = "podward.test/busybox:1";

/// An image with one layer.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Full reference, as in a pod manifest.
    pub name: String,
    pub entrypoint: Vec<String>,
    /// The user of the processes: name or number, with an optional group.
    pub user: String,
    /// `NAME=value` pairs.
    pub env: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub files: Vec<ImageFile>,
}

/// An entry of an image's layer; paths are relative to the image's root.
#[derive(Clone, Debug)]
pub enum ImageFile {
    /// A program copied from this machine, mode 0755.
    Program(String, PathBuf),
    /// The same with mode 4755: it runs as root for every user.
    SetuidProgram(String, PathBuf),
    /// A small file with the given text, mode 0644.
    Text(String, String),
    /// A shell script, mode 0755.
    Script(String, String),
    /// A symbolic link and its target.
    Link(String, String),
    /// Another name of a file that the image has already.
    HardLink(String, String),
    /// A folder and its mode.
    Folder(String, u32),
}

/// Writes the image of the examples into `folder` and returns the archive's path. Needs nothing but Rust and a C compiler.
pub fn write_demo_image(folder: &Path) -> Result<PathBuf> {
    write_file(&[demo_image(DEMO, &demo_program()?, &["/demo"])], &folder.join("demo.tar"))
}

/// Writes the images that the scenarios use into `folder` and returns the archive's path.
///
/// Builds the demo program on the way when it is missing or old.
pub fn write_test_images(folder: &Path) -> Result<PathBuf> {
    let demo = demo_program()?;
    let images = [
        demo_image(PAUSE, &demo, &["/demo", "pause"]),
        demo_image(DEMO, &demo, &["/demo"]),
        demo_image(DEMO_2, &demo, &["/demo"]),
        Image { name: BUSYBOX.to_owned(), ..busybox_image()? },
    ];
    write_file(&images, &folder.join("images.tar"))
}

/// Writes an archive. It is renamed into place: several tests and test processes may write, and read, the same one.
fn write_file(images: &[Image], path: &Path) -> Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let part = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("create a file in {}", folder.display()))?;
    write_archive(images, part.as_file())?;
    part.persist(path).with_context(|| format!("rename to {}", path.display()))?;
    Ok(path.to_owned())
}

/// Path of the statically linked demo program; builds it when needed.
pub fn demo_program() -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let workspace = workspace();
    // A separate target folder: other flags in the shared one would rebuild all dependencies.
    let folder = workspace.join("target/static");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&workspace)
        .args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "demo",
            "--release",
            "--target",
            &target,
            "--target-dir",
        ])
        .arg(&folder)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "cargo build -p demo: {status}");
    Ok(folder.join(target).join("release/demo"))
}

pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

fn demo_image(name: &str, program: &Path, entrypoint: &[&str]) -> Image {
    let version = name.rsplit(':').next().unwrap_or_default().to_owned();
    Image {
        name: name.to_owned(),
        entrypoint: entrypoint.iter().map(ToString::to_string).collect(),
        env: vec!["PATH=/".to_owned(), format!("IMAGE_VERSION={version}")],
        labels: BTreeMap::from([("test.podward/version".to_owned(), version)]),
        files: vec![
            ImageFile::Program("demo".to_owned(), program.to_path_buf()),
            ImageFile::Folder("tmp".to_owned(), 0o1777),
            ImageFile::Folder("etc".to_owned(), 0o755),
            ImageFile::Text("etc/passwd".to_owned(), "root:x:0:0::/:/demo\n".to_owned()),
            ImageFile::Text("etc/group".to_owned(), "root:x:0:\n".to_owned()),
        ],
        ..Image::default()
    }
}

fn busybox_image() -> Result<Image> {
    let program = Path::new("/bin/busybox");
    ensure!(program.exists(), "{} is missing: run tools/setup.sh", program.display());
    let list = Command::new(program).arg("--list").output().context("start busybox --list")?;
    let applets = String::from_utf8(list.stdout).context("read busybox --list")?;
    let mut files = vec![
        ImageFile::Folder("bin".to_owned(), 0o755),
        ImageFile::Program("bin/busybox".to_owned(), program.to_path_buf()),
        ImageFile::Folder("tmp".to_owned(), 0o1777),
        ImageFile::Folder("etc".to_owned(), 0o755),
        ImageFile::Text("etc/passwd".to_owned(), "root:x:0:0::/:/bin/sh\n".to_owned()),
        ImageFile::Text("etc/group".to_owned(), "root:x:0:\n".to_owned()),
    ];
    let links = applets.lines().filter(|applet| *applet != "busybox");
    files.extend(links.map(|applet| ImageFile::Link(format!("bin/{applet}"), "busybox".to_owned())));
    Ok(Image { env: vec!["PATH=/bin".to_owned()], files, ..Image::default() })
}
