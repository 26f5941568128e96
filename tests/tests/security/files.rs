//! A container with access to its own pod folder cannot make the agent write elsewhere.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use scenarios::{Agent, Node, pod, podward_only, sleeper, with};
use serde_json::json;
use testkit::images::BUSYBOX;
use testkit::poll::throughout;

// Upstream writes the hosts file through the planted link.
podward_only!(planted_links_do_not_redirect_writes);

async fn planted_links_do_not_redirect_writes(agent: Agent) -> Result<()> {
    const UID: &str = "11111111-2222-3333-4444-555555555555";
    let node = Node::start(agent).await?;
    let outside = node.runtime.instance().path("outside");
    fs::create_dir_all(outside.join("folder"))?;
    fs::write(outside.join("hosts"), "untouched")?;
    let target = outside.display();
    let script = format!(
        "cd /pods/{UID} && rm -rf etc-hosts containers/main && ln -s {target}/hosts etc-hosts && ln -s {target}/folder containers/main; exit 1"
    );
    let main = json!({
        "name": "main", "image": BUSYBOX, "command": ["/bin/sh", "-c", script],
        "volumeMounts": [{"name": "pods", "mountPath": "/pods"}],
    });
    let volume = json!([{"name": "pods", "hostPath": {"path": node.agent.root().join("pods")}}]);
    let manifest = with(pod("evil", [main]), "/spec/volumes", volume);
    node.write("evil.json", &with(manifest, "/metadata/uid", json!(UID)))?;
    node.write("good.json", &sleeper("good"))?;
    node.wait_running("good").await?;
    let folder = node.agent.root().join("pods").join(UID);
    testkit::poll::eventually("the links are planted", Duration::from_secs(30), async || {
        ensure!(fs::symlink_metadata(folder.join("containers/main"))?.is_symlink(), "not yet");
        Ok(())
    })
    .await?;
    throughout("nothing outside is touched", Duration::from_secs(6), async || {
        ensure!(
            fs::read_to_string(outside.join("hosts"))? == "untouched",
            "the hosts file was written through a link"
        );
        ensure!(fs::read_dir(outside.join("folder"))?.count() == 0, "a file was made through a link");
        Ok(())
    })
    .await?;
    node.remove("evil.json")?;
    node.wait_gone("evil").await?;
    ensure!(fs::read_to_string(outside.join("hosts"))? == "untouched", "the end of the pod reached outside");
    ensure!(node.wait_running("good").await?.container("main").restarts == 0, "another pod was disturbed");
    Ok(())
}
