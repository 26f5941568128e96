//! `image-tar FOLDER`: writes the test images as `FOLDER/images.tar` and prints the path.

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).context("usage: image-tar FOLDER")?;
    let path = testkit::images::write_test_images(folder.as_ref())?;
    println!("{}", path.display());
    Ok(())
}
