//! The runtimes without an agent's decisions: pods, containers, commands and pulls by calls of CRI.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use scenarios::Node;
use testkit::images::{self, Image, ImageFile};
use testkit::registry::Registry;

use crate::measure::{median, milliseconds};
use crate::table::Measurement;

/// Size of the image that is pulled.
const FILES: u64 = 200;
const FILE_BYTES: u64 = 1 << 20;

/// Runs all measurements; starts the agent, because a runtime may be inside it, and leaves it running.
pub(crate) async fn all(node: &mut Node, quick: bool) -> Result<Vec<Measurement>> {
    node.agent.start()?;
    node.agent.wait_ready().await?;
    let repeats = if quick { 7 } else { 25 };
    let mut measurements = pods(node, repeats).await?;
    measurements.extend(Box::pin(containers(node, repeats)).await?);
    measurements.extend(pull(node).await?);
    Ok(measurements)
}

async fn pods(node: &Node, repeats: usize) -> Result<Vec<Measurement>> {
    let cri = node.cri();
    let mut times = Vec::new();
    for number in 0..repeats {
        let name = format!("alone-{number}");
        times.push(Box::pin(cri.start_pod(&name, images::DEMO, &["sleep", "forever"])).await?);
    }
    cri.remove_all().await?;
    Ok(vec![milliseconds("runtime alone: pod with one container (p50)", median(times)?)])
}

async fn containers(node: &Node, repeats: usize) -> Result<Vec<Measurement>> {
    let cri = node.cri();
    Box::pin(cri.start_pod("measured", images::DEMO, &["sleep", "forever"])).await?;
    let sandbox = cri.sandboxes_of("measured").await?.pop().context("the sandbox")?.id;
    let (mut starts, mut commands) = (Vec::new(), Vec::new());
    for number in 0..repeats {
        let name = format!("c{number}");
        let (container, time) = cri.start_container(&sandbox, &name, &["sleep", "forever"]).await?;
        starts.push(time);
        commands.push(cri.exec(&container, &["/demo", "print", "x"]).await?);
    }
    cri.remove_all().await?;
    Ok(vec![
        milliseconds("runtime alone: create and start a container (p50)", median(starts)?),
        milliseconds("runtime alone: exec (p50)", median(commands)?),
    ])
}

/// One layer of 200 MiB, not compressed, from a registry in this process.
async fn pull(node: &Node) -> Result<Vec<Measurement>> {
    let archive = large_image(&images::workspace().join("target/bench-image"))?;
    let registry = Registry::start_with(&archive).await?;
    let before = node.runtime.instance().memory_kib();
    let cri = node.cri();
    let image = registry.image("demo:1");
    let pull = cri.pull(&image);
    tokio::pin!(pull);
    let mut most = before;
    let time = loop {
        tokio::select! {
            time = &mut pull => break time?,
            () = tokio::time::sleep(Duration::from_millis(10)) => {
                most = most.max(node.runtime.instance().memory_kib());
            }
        }
    };
    let growth = u32::try_from(most.saturating_sub(before)).context("memory in KiB")?;
    Ok(vec![
        milliseconds("pull and unpack of 200 MiB", time),
        Measurement {
            name: "pull and unpack of 200 MiB: memory",
            unit: "MiB",
            value: f64::from(growth) / 1024.0,
        },
    ])
}

/// Writes the image once. Its content does not compress and has no holes.
fn large_image(folder: &Path) -> Result<PathBuf> {
    let archive = folder.join("large.tar");
    if archive.exists() {
        return Ok(archive);
    }
    std::fs::create_dir_all(folder).context("create the folder of the image")?;
    let mut files = Vec::new();
    let mut state = 1_u64;
    for number in 0..FILES {
        let mut content = Vec::new();
        while (content.len() as u64) < FILE_BYTES {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            content.extend(state.to_le_bytes());
        }
        let path = folder.join(format!("file-{number}"));
        std::fs::write(&path, content).context("write a file of the image")?;
        files.push(ImageFile::Program(format!("file-{number}"), path));
    }
    let image = Image { name: images::DEMO.to_owned(), files, ..Image::default() };
    let part = folder.join("large.part");
    images::write_archive(&[image], std::fs::File::create(&part).context("create the image")?)?;
    std::fs::rename(&part, &archive).context("rename the image")?;
    Ok(archive)
}
