//! Debian's CNI plugins.

use std::fs;

use runtime::network::*;

use crate::node::*;

/// Addresses by host-local, kept in a folder of the test.
fn chain(data: &std::path::Path) -> String {
    let data = data.display();
    format!(
        r#"{{"cniVersion": "1.0.0", "name": "debian", "plugins": [
            {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
              "ipam": {{"type": "host-local", "dataDir": "{data}", "ranges": [[{{"subnet": "10.88.0.0/24"}}]],
                       "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
            {{"type": "portmap", "capabilities": {{"portMappings": true}}, "snat": true}}]}}"#
    )
}

#[test]
#[ignore = "needs root"]
fn debian_plugins_connect_pods_and_publish_host_ports() {
    require_root();
    on_node(async |node| {
        let outside = node.outside().await;
        let data = node.path("host-local");
        let mut settings = node.settings();
        settings.cni_binary_folders = vec!["/usr/lib/cni".into()];
        fs::create_dir_all(&settings.cni_config_folder).unwrap();
        let configuration = settings.cni_config_folder.join("10-debian.conflist");
        fs::write(&configuration, chain(&data)).unwrap();
        let networks = PodNetworks::open(settings.clone()).unwrap();
        networks.readiness().await.unwrap();

        let (mut server, client) = (node.pod("server").await, node.pod("client").await);
        server.port_mappings = vec![PortMapping {
            protocol: PortProtocol::Tcp,
            container_port: 80,
            host_port: 8080,
            host_ip: None,
        }];
        let addresses = networks.set_up(&server).await.unwrap();
        assert_eq!(addresses.primary.to_string(), "10.88.0.2");
        let error = networks.set_up(&server).await.unwrap_err().to_string();
        assert!(error.ends_with("the sandbox already has a network"), "{error}");
        networks.set_up(&client).await.unwrap();
        // Not for the server: this version of portmap looks for IPv6 rules that it has not made.
        networks.check(&client).await.unwrap();
        serve(&server.netns, "[::]:80");
        assert!(enter(&client.netns, || ask_tcp("10.88.0.2:80")).is_ok());
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_ok());
        assert!(ask_tcp("127.0.0.1:8080").is_ok());

        // After a restart, without the configuration and the namespace.
        fs::remove_file(&configuration).unwrap();
        let networks = PodNetworks::open(settings).unwrap();
        remove_pinned_namespace(&client.netns).await.unwrap();
        for _ in 0..2 {
            networks.tear_down(&client).await.unwrap();
        }
        networks.recover(&[]).await.unwrap();
        assert!(enter(&outside, || ask_tcp("192.0.2.1:8080")).is_err());
        let left: Vec<String> = fs::read_dir(data.join("debian"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("10."))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    });
}

#[test]
#[ignore = "needs root"]
fn broken_configuration_and_missing_plugin_are_reported() {
    require_root();
    on_node(async |node| {
        let settings = node.settings();
        fs::create_dir_all(&settings.cni_config_folder).unwrap();
        let file = settings.cni_config_folder.join("10-net.conflist");
        fs::write(&file, "{").unwrap();
        let networks = PodNetworks::open(settings).unwrap();
        let reason = networks.readiness().await.unwrap_err();
        assert!(reason.contains("10-net.conflist") && reason.contains("EOF"), "{reason}");
        let pod = node.pod("pod").await;
        assert!(networks.set_up(&pod).await.unwrap_err().to_string().contains("10-net.conflist"));
        fs::write(
            &file,
            r#"{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "no-such-plugin"}]}"#,
        )
        .unwrap();
        let reason = networks.readiness().await.unwrap_err();
        assert!(reason.contains("CNI plugin no-such-plugin of network net: no program in"), "{reason}");
        // Without a configuration, the built-in network.
        fs::remove_file(&file).unwrap();
        networks.readiness().await.unwrap();
        networks.set_up(&pod).await.unwrap();
    });
}
