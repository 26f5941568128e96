//! `podward get node`.

use k8s_openapi::api::core::v1::Node;
use model::Timestamp;
use model::local_api::paths;
use ports::clock::{Clock, SystemClock};

use super::{PrintableObject, print, print_objects};
use crate::command::arguments::{GetArguments, Output};
use crate::command::client::Client;
use crate::command::table::{Table, age_of};

pub(super) async fn run(client: &Client, arguments: &GetArguments) -> anyhow::Result<()> {
    if arguments.watch {
        anyhow::bail!("--watch works with pods and events only");
    }
    let node: Node = client.get(paths::NODE).await?;
    let name = node.metadata.name.clone().unwrap_or_default();
    if let Some(other) = arguments.names.iter().find(|requested| **requested != name) {
        anyhow::bail!("node {other:?} not found; this agent's node is {name}");
    }
    let object = PrintableObject::new("Node", &name, serde_json::to_value(&node)?);
    if print_objects(arguments.format.output, &[object], true)? {
        return Ok(());
    }
    print(&table(&node, arguments, SystemClock.now()).take_text())
}

fn table(node: &Node, arguments: &GetArguments, now: Timestamp) -> Table {
    let status = node.status.clone().unwrap_or_default();
    let info = status.node_info.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let mut shown_status = match ready.map(|condition| condition.status.as_str()) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        shown_status.push_str(",SchedulingDisabled");
    }
    let created = node.metadata.creation_timestamp.as_ref().map(Timestamp::from_api_time);
    let name = node.metadata.name.clone().unwrap_or_default();
    let address = |kind: &str| {
        let found = status.addresses.iter().flatten().find(|address| address.type_ == kind);
        found.map_or("<none>".to_owned(), |found| found.address.clone())
    };
    let mut cells = vec![name, shown_status, age_of(created, now), info.kubelet_version.clone()];
    let mut headings = vec!["NAME", "STATUS", "AGE", "VERSION"];
    if arguments.format.output == Output::Wide {
        headings.extend(["INTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"]);
        cells.extend([
            address("InternalIP"),
            info.os_image,
            info.kernel_version,
            info.container_runtime_version,
        ]);
    }
    let mut table = Table::without_headings();
    if !arguments.no_headers {
        table.add_row(headings.into_iter().map(str::to_owned).collect());
    }
    table.add_row(cells);
    table
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::command::arguments::{Command, CommandLine};

    #[test]
    fn prints_node_as_kubectl() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "node-a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
                "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "Debian", "kernelVersion": "6.1",
                    "containerRuntimeVersion": "containerd://2.0", "architecture": "amd64", "bootID": "",
                    "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "systemUUID": ""}},
        }))
        .unwrap();
        let now = Timestamp::from_secs(1_767_225_670);
        let output = |line: &str| match CommandLine::try_parse_from(line.split(' ')).unwrap().command {
            Command::Get(get) => table(&node, &get, now).take_text(),
            _ => panic!(),
        };
        assert_eq!(
            output("podward get node"),
            "NAME     STATUS   AGE   VERSION\nnode-a   Ready    70s   v1.36.4\n"
        );
        let wide = output("podward get node -o wide");
        assert!(wide.contains("192.0.2.7") && wide.contains("containerd://2.0"), "{wide}");
    }
}
