//! The images that critest pulls, under their public names: busybox with small additions.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::{Image, ImageFile, busybox_image, demo_image, demo_program, write_file};

/// critest pulls this image by the digest of its publisher.
pub const DIGEST_IMAGE: &str = "gcr.io/k8s-staging-cri-tools/test-image-digest:latest";

const CRI_TOOLS: &str = "gcr.io/k8s-staging-cri-tools/";
const END_TO_END: &str = "registry.k8s.io/e2e-test-images/";

/// Accounts of the public busybox image that critest uses.
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33:www-data:/var/www:/bin/false\n\
    nobody:x:65534:65534:nobody:/home:/bin/false\n";
const GROUP: &str = "root:x:0:\nwww-data:x:33:\nnobody:x:65534:\n";

/// Programs that critest calls and Debian's busybox does not have.
const SCRIPTS: [(&str, &str); 2] =
    [("bin/pgrep", "#!/bin/sh\npidof \"$1\"\n"), ("bin/ipcs", "#!/bin/sh\ncat /proc/sysvipc/shm\n")];

/// Writes `critest-images.tar` into the folder and returns its path.
pub fn write_critest_images(folder: &Path) -> Result<PathBuf> {
    write_file(&images(&demo_program()?)?, &folder.join("critest-images.tar"))
}

fn images(demo: &Path) -> Result<Vec<Image>> {
    let mut images = vec![
        busybox(format!("{END_TO_END}busybox:1.29-2"))?,
        web_server(format!("{END_TO_END}nginx:1.14-2"), demo, 80)?,
        web_server(format!("{END_TO_END}httpd:2.4.39-4"), demo, 80)?,
        web_server(format!("{CRI_TOOLS}hostnet-nginx-amd64:latest"), demo, 12003)?,
        no_new_privileges(demo)?,
        predefined_group()?,
        labelled(DIGEST_IMAGE.to_owned(), "digest")?,
        labelled(format!("{CRI_TOOLS}test-image-latest:latest"), "latest")?,
        labelled(format!("{CRI_TOOLS}test-image-tag:test"), "tag test")?,
        labelled(format!("{CRI_TOOLS}test-image-tag:all"), "tag all")?,
    ];
    for registry in ["registry.k8s.io", "k8s.gcr.io"] {
        images.push(demo_image(&format!("{registry}/pause:3.9"), demo, &["/demo", "pause"]));
    }
    for number in 1..=3 {
        images.push(labelled(format!("{CRI_TOOLS}test-image-{number}:latest"), &number.to_string())?);
        images.push(labelled(format!("{CRI_TOOLS}test-image-tags:{number}"), "tags")?);
    }
    let users = [
        ("uid", "1002"),
        ("username", "www-data"),
        ("uid-group", "1003:users"),
        ("username-group", "www-data:100"),
    ];
    for (name, user) in users {
        let name = format!("{CRI_TOOLS}test-image-user-{name}:latest");
        images.push(Image { user: user.to_owned(), ..labelled(name, user)? });
    }
    Ok(images)
}

fn busybox(name: String) -> Result<Image> {
    let mut image = Image { name, entrypoint: shell("exec sh"), ..busybox_image()? };
    image.files.retain(|file| !matches!(file, ImageFile::Text(..)));
    for file in &mut image.files {
        // critest masks one of the programs, and the others must stay.
        if let ImageFile::Link(path, _) = file {
            *file = ImageFile::HardLink(path.clone(), "bin/busybox".to_owned());
        }
    }
    image.files.push(text("etc/passwd", PASSWD));
    image.files.push(text("etc/group", GROUP));
    let scripts = SCRIPTS.map(|(path, script)| ImageFile::Script(path.to_owned(), script.to_owned()));
    image.files.extend(scripts);
    image.files.extend(["root", "var", "var/run", "usr", "usr/sbin"].map(|path| folder(path, 0o755)));
    Ok(image)
}

/// An image that differs from others by its label.
fn labelled(name: String, label: &str) -> Result<Image> {
    let mut image = busybox(name)?;
    image.labels.insert("test.podward/content".to_owned(), label.to_owned());
    Ok(image)
}

/// critest looks for the process by its name, its file with the process ID, and the words of its command line.
fn web_server(name: String, demo: &Path, port: u16) -> Result<Image> {
    let mut image = busybox(name)?;
    image.files.push(ImageFile::Program("usr/sbin/nginx".to_owned(), demo.to_owned()));
    image.entrypoint = shell(&format!(
        "echo $$ >/var/run/nginx.pid; exec /usr/sbin/nginx print 'httpd: master process' -- serve --port {port}"
    ));
    Ok(image)
}

fn no_new_privileges(demo: &Path) -> Result<Image> {
    let mut image = busybox(format!("{END_TO_END}nonewprivs:1.3"))?;
    image.files.push(ImageFile::SetuidProgram("bin/effective-uid".to_owned(), demo.to_owned()));
    image.entrypoint = vec!["/bin/effective-uid".to_owned(), "effective-uid".to_owned()];
    Ok(image)
}

fn predefined_group() -> Result<Image> {
    let mut image = busybox(format!("{CRI_TOOLS}test-image-predefined-group:latest"))?;
    image.files.retain(|file| !matches!(file, ImageFile::Text(..)));
    let user = "default-user:x:1000:1000::/home:/bin/sh\n";
    let groups = "default-user:x:1000:\ngroup-defined-in-image:x:50000:default-user\n";
    image.files.push(text("etc/passwd", &format!("{PASSWD}{user}")));
    image.files.push(text("etc/group", &format!("{GROUP}{groups}")));
    image.user = "1000".to_owned();
    Ok(image)
}

fn shell(command: &str) -> Vec<String> {
    ["/bin/sh", "-c", command].map(str::to_owned).to_vec()
}

fn text(path: &str, content: &str) -> ImageFile {
    ImageFile::Text(path.to_owned(), content.to_owned())
}

fn folder(path: &str, mode: u32) -> ImageFile {
    ImageFile::Folder(path.to_owned(), mode)
}
