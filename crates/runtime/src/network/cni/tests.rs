use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::network::request::{PodDns, PortMapping, PortProtocol};

/// Plugins that record how they are called, and a folder of configurations.
struct Machine {
    folder: tempfile::TempDir,
    networks: CniNetworks,
}

impl Machine {
    fn new(configuration: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (bin, config) = (folder.path().join("bin"), folder.path().join("net.d"));
        fs::create_dir(&bin).unwrap();
        fs::create_dir(&config).unwrap();
        fs::write(config.join("10-test.conflist"), configuration).unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/network/cni/testdata/plugin.sh");
        for name in ["first", "second"] {
            symlink(script, bin.join(name)).unwrap();
        }
        let mut settings = NetworkSettings::new(folder.path().join("state"));
        settings.cni_config_folder = config;
        settings.cni_binary_folders = vec![folder.path().join("missing"), bin];
        let networks = CniNetworks::open(&settings).unwrap();
        Self { folder, networks }
    }

    /// Writes a file that controls a plugin: `first-ADD.answer` is its output for ADD.
    fn prepare(&self, call: &str, content: &str) {
        fs::write(self.folder.path().join("bin").join(call), content).unwrap();
    }

    fn network(&self) -> NetworkConfig {
        self.networks.configuration().unwrap().unwrap()
    }

    async fn add(&self) -> Result<Vec<IpAddr>, String> {
        let added = self.networks.add(&self.network(), &request("id1"), &[]).await;
        added.map_err(|error| error.to_string())
    }

    /// The calls since the last question: plugin and command, environment, input.
    fn calls(&self) -> Vec<(String, String, Value)> {
        let file = self.folder.path().join("bin/calls");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        let call = |line: &str| {
            let (start, input) = line.split_once(" {").unwrap();
            let (call, environment) = start.split_once(' ').unwrap();
            let input = serde_json::from_str(&format!("{{{input}")).unwrap();
            (call.to_owned(), environment.to_owned(), input)
        };
        text.lines().map(call).collect()
    }

    fn called(&self) -> Vec<String> {
        self.calls().into_iter().map(|(call, _, _)| call).collect()
    }
}

fn request(id: &str) -> PodNetworkRequest {
    PodNetworkRequest {
        sandbox_id: id.to_owned(),
        name: "pod".to_owned(),
        namespace: "default".to_owned(),
        uid: "uid".to_owned(),
        annotations: HashMap::from([("kubernetes.io/ingress-bandwidth".to_owned(), "1M".to_owned())]),
        netns: "/missing/netns".into(),
        port_mappings: vec![PortMapping {
            protocol: PortProtocol::Udp,
            container_port: 53,
            host_port: 5353,
            host_ip: Some([127, 0, 0, 1].into()),
        }],
        cgroup_parent: "/kubepods".to_owned(),
        dns: PodDns { servers: vec!["10.0.0.10".to_owned()], ..PodDns::default() },
    }
}

const CHAIN: &str = r#"{"cniVersion": "1.1.0", "name": "net", "plugins": [
    {"type": "first", "mtu": 1400, "capabilities": {"portMappings": true, "bandwidth": false}},
    {"type": "second", "capabilities": {"bandwidth": true}}]}"#;
const RESULT: &str = r#"{"cniVersion": "1.1.0", "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/n"}],
    "ips": [{"address": "10.1.0.5/24", "gateway": "10.1.0.1", "interface": 1}, {"address": "10.1.0.1/24", "interface": 0}]}"#;

#[tokio::test]
async fn adds_in_order_and_deletes_in_reverse_with_the_result() {
    let machine = Machine::new(CHAIN);
    machine.prepare("first-ADD.answer", RESULT);
    machine.prepare("second-ADD.answer", RESULT);
    assert_eq!(machine.add().await, Ok(vec![[10, 1, 0, 5].into()]));
    let calls = machine.calls();
    let (call, environment, input) = &calls[0];
    assert_eq!(call, "first-ADD");
    let expected = "id=id1 netns=/missing/netns ifname=eth0 args=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;\
        K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=id1;K8S_POD_UID=uid path=";
    assert!(environment.starts_with(expected), "{environment}");
    let port = json!({"hostPort": 5353, "containerPort": 53, "protocol": "udp", "hostIP": "127.0.0.1"});
    assert_eq!(
        *input,
        json!({"type": "first", "mtu": 1400, "cniVersion": "1.1.0", "name": "net",
            "runtimeConfig": {"portMappings": [port]}})
    );
    let (call, _, input) = &calls[1];
    assert_eq!(call, "second-ADD");
    let limits = json!({"bandwidth": {"ingressRate": 1_000_000, "ingressBurst": u32::MAX}});
    assert_eq!(input["runtimeConfig"], limits);
    let result: Value = serde_json::from_str(RESULT).unwrap();
    assert_eq!(input["prevResult"], result);

    // The plugins of the configuration that was in force at the addition.
    fs::remove_file(machine.folder.path().join("net.d/10-test.conflist")).unwrap();
    machine.networks.check("id1").await.unwrap();
    assert_eq!(machine.called(), ["first-CHECK", "second-CHECK"]);
    for _ in 0..2 {
        machine.networks.delete("id1").await.unwrap();
    }
    let calls = machine.calls();
    let names: Vec<&str> = calls.iter().map(|(call, _, _)| call.as_str()).collect();
    assert_eq!(names, ["second-DEL", "first-DEL"]);
    assert_eq!(calls[1].2["prevResult"], result);
    assert!(calls[0].1.contains("netns= "), "a missing namespace is an empty path");
    assert!(!machine.networks.has("id1").unwrap());
}

#[tokio::test]
async fn failed_addition_names_the_plugin_and_can_be_deleted_after_a_restart() {
    let machine = Machine::new(CHAIN);
    machine.prepare("first-ADD.answer", RESULT);
    machine.prepare(
        "second-ADD.fail",
        r#"{"cniVersion": "1.1.0", "code": 11, "msg": "try again", "details": "busy"}"#,
    );
    let error = machine.add().await.unwrap_err();
    assert_eq!(error, "CNI plugin second of network net: try again; busy (code 11)");
    let mut settings = NetworkSettings::new(machine.folder.path().join("state"));
    settings.cni_binary_folders = vec![machine.folder.path().join("bin")];
    machine.calls();
    CniNetworks::open(&settings).unwrap().delete("id1").await.unwrap();
    let calls = machine.calls();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|(_, _, input)| input.get("prevResult").is_none()));
}

#[tokio::test]
async fn deletion_keeps_its_record_until_it_succeeds() {
    let machine = Machine::new(CHAIN);
    machine.prepare("second-ADD.answer", RESULT);
    machine.add().await.unwrap();
    machine.prepare("second-DEL.fail", r#"{"code": 5, "msg": "disk"}"#);
    let error = machine.networks.delete("id1").await.unwrap_err().to_string();
    assert_eq!(error, "CNI plugin second of network net: disk (code 5)");
    assert!(machine.networks.has("id1").unwrap());
    machine.prepare("second-DEL.fail", r#"{"code": 3, "msg": "unknown container"}"#);
    machine.prepare("first-DEL.fail", r#"{"code": 999, "msg": "netns: no such file or directory"}"#);
    machine.networks.delete("id1").await.unwrap();
    assert!(!machine.networks.has("id1").unwrap());
}

#[tokio::test]
async fn collects_garbage_of_dead_sandboxes_and_asks_for_the_status() {
    let machine = Machine::new(CHAIN);
    machine.prepare("second-ADD.answer", RESULT);
    for id in ["dead", "live"] {
        machine.networks.add(&machine.network(), &request(id), &[]).await.unwrap();
    }
    machine.networks.status(&machine.network()).await.unwrap();
    machine.calls();
    machine.networks.collect_garbage(&HashSet::from(["live"])).await.unwrap();
    let calls = machine.calls();
    let names: Vec<&str> = calls.iter().map(|(call, _, _)| call.as_str()).collect();
    assert_eq!(names, ["second-DEL", "first-DEL", "first-GC", "second-GC"]);
    assert_eq!(calls[2].2["cni.dev/valid-attachments"], json!([{"containerID": "live", "ifname": "eth0"}]));
    assert!(calls[2].1.starts_with("id= netns= ifname= args= "));

    machine.prepare("second-STATUS.fail", r#"{"code": 50, "msg": "no daemon"}"#);
    let error = machine.networks.status(&machine.network()).await.unwrap_err().to_string();
    assert_eq!(error, "CNI plugin second of network net: no daemon (code 50)");
}

#[tokio::test]
async fn kills_hanging_plugin_with_all_its_processes() {
    let machine = Machine::new(CHAIN);
    machine.prepare("first-ADD.hang", "");
    let program = machine.folder.path().join("bin/first");
    let record = AttachmentRecord::new(&machine.network(), &request("id1"), json!({}));
    let invocation =
        Invocation { program: &program, command: Command::Add, attachment: Some(&record), folders: &[] };
    let children = machine.folder.path().join("bin/children");
    let begun = async {
        while fs::read_to_string(&children).unwrap_or_default().lines().count() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // Cancelling the call kills the tree in the same way as the deadline.
    tokio::select! {
        result = plugin::execute(&invocation, b"{}", Duration::from_secs(1000)) => panic!("{result:?}"),
        () = begun => {}
    }
    for child in fs::read_to_string(&children).unwrap().lines() {
        let stat = Path::new("/proc").join(child).join("stat");
        while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let error = plugin::execute(&invocation, b"{}", Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.to_string(), "killed after 50ms");
}

#[tokio::test]
async fn kills_plugin_that_writes_too_much() {
    let machine = Machine::new(CHAIN);
    machine.prepare("first-ADD.flood", "");
    assert!(machine.add().await.unwrap_err().contains("killed because of more than"));
}

#[tokio::test]
async fn refuses_results_without_an_address_of_the_pod() {
    let machine = Machine::new(CHAIN);
    assert_eq!(machine.add().await.unwrap_err(), "CNI network net gave the pod no address");
    machine.prepare("second-ADD.answer", r#"{"ips": [{"address": "10.1.0.5"}]}"#);
    let error = machine.add().await.unwrap_err();
    assert_eq!(
        error,
        "CNI plugin second of network net: ips of the result has an entry without a valid address"
    );
}

#[test]
fn first_configuration_by_name_applies_and_a_broken_one_is_named() {
    let machine = Machine::new(CHAIN);
    let folder = machine.folder.path().join("net.d");
    fs::write(folder.join("00-first.txt"), "no configuration").unwrap();
    assert_eq!(machine.network().name, "net");
    fs::write(folder.join("05-single.conf"), r#"{"name": "single", "type": "first", "cniVersion": "0.3.1"}"#)
        .unwrap();
    let single = machine.network();
    assert_eq!((single.name.as_str(), single.plugins.len()), ("single", 1));
    let own = folder.join("net");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("10-more.conf"), r#"{"type": "third"}"#).unwrap();
    fs::rename(folder.join("05-single.conf"), folder.join("50-single.conf")).unwrap();
    let kinds =
        |network: NetworkConfig| network.plugins.into_iter().map(|plugin| plugin.kind).collect::<Vec<_>>();
    assert_eq!(kinds(config::parse(&machine.network().text).unwrap()), ["first", "second", "third"]);
    let inlined = CHAIN.replacen('{', r#"{"loadOnlyInlinedPlugins": true, "#, 1);
    fs::write(folder.join("10-test.conflist"), inlined).unwrap();
    assert_eq!(kinds(machine.network()), ["first", "second"]);
    fs::write(folder.join("01-broken.json"), r#"{"name": "x", "plugins": []}"#).unwrap();
    let error = machine.networks.configuration().unwrap_err().to_string();
    assert!(error.ends_with("01-broken.json\": 0 plugins; 1 to 64 are possible"), "{error}");
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(machine.networks.configuration().unwrap(), None);
}

#[test]
fn rejects_configurations_that_it_does_not_understand() {
    let cases = [
        ("[]", "not an object"),
        ("{", "EOF"),
        (r#"{"plugins": [{"type": "first"}]}"#, "name \"\""),
        (r#"{"name": "a/b", "type": "first"}"#, "name \"a/b\""),
        (r#"{"name": "a", "type": "../sh"}"#, "plugin type \"../sh\""),
        (r#"{"name": "a", "plugins": [1]}"#, "a plugin is not an object"),
        (r#"{"name": "a", "type": "b", "cniVersion": "9.0.0"}"#, "cniVersion \"9.0.0\" is not known"),
        (r#"{"name": "a", "plugins": [{"type": "b"}], "disableCheck": 1}"#, "disableCheck 1"),
        (r#"{"name": "a", "type": "b", "capabilities": []}"#, "capabilities of plugin b"),
    ];
    for (text, expected) in cases {
        let error = config::parse(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn chooses_the_highest_known_version() {
    let version = |fields: &str| {
        let text = format!(r#"{{"name": "a", "plugins": [{{"type": "b"}}]{fields}}}"#);
        config::parse(&text).unwrap().version.to_string()
    };
    assert_eq!(version(""), "0.1.0");
    assert_eq!(version(r#", "cniVersion": "0.4.0""#), "0.4.0");
    assert_eq!(version(r#", "cniVersion": "0.4.0", "cniVersions": ["1.0.0", "7.0.0", "0.3.1"]"#), "1.0.0");
}

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn converts_results_between_versions() {
    let convert = |from: Value, to: &str| {
        let result = AddResult::parse(from.to_string().as_bytes(), Version::DEFAULT).unwrap();
        result.into_version(version(to))
    };
    let old = json!({"cniVersion": "0.2.0", "dns": {"nameservers": ["10.0.0.10"]},
        "ip4": {"ip": "10.1.0.5/24", "gateway": "10.1.0.1", "routes": [{"dst": "0.0.0.0/0"}]}, "ip6": {"ip": "fd00::5/64"}});
    let middle = json!({"cniVersion": "0.4.0", "dns": {"nameservers": ["10.0.0.10"]},
        "ips": [{"version": "4", "address": "10.1.0.5/24", "gateway": "10.1.0.1"}, {"version": "6", "address": "fd00::5/64"}],
        "routes": [{"dst": "0.0.0.0/0"}]});
    let mut new = middle.clone();
    new["cniVersion"] = json!("1.1.0");
    for entry in new["ips"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("version");
    }
    for from in [&old, &middle, &new] {
        assert_eq!(convert(from.clone(), "0.2.0"), old);
        assert_eq!(convert(from.clone(), "0.4.0"), middle);
        assert_eq!(convert(from.clone(), "1.1.0"), new);
    }
}

#[test]
fn rejects_results_that_are_not_valid() {
    let cases = [
        (r#"{"cniVersion": "2.0.0"}"#, InvalidResult::Version("2.0.0".to_owned()).to_string()),
        (r#"{"ips": {}}"#, "ips of the result is not a list".to_owned()),
        (
            r#"{"interfaces": [{"name": "a/b"}]}"#,
            "interfaces of the result has an entry without a valid name".to_owned(),
        ),
        (
            r#"{"ips": [{"address": "10.0.0.1/24", "interface": 2}]}"#,
            "ips of the result names an interface that does not exist".to_owned(),
        ),
        (
            r#"{"ips": [{"address": "10.0.0.1/24", "gateway": "x"}]}"#,
            "ips of the result has an invalid gateway".to_owned(),
        ),
        (r#"{"routes": [{"dst": "x"}]}"#, "routes of the result has an entry without a valid dst".to_owned()),
        (r#"{"cniVersion": "0.2.0", "ip4": 1}"#, "ip4 or ip6 of the result is not an object".to_owned()),
    ];
    for (text, expected) in cases {
        assert_eq!(
            AddResult::parse(text.as_bytes(), version("1.0.0")).unwrap_err().to_string(),
            expected,
            "{text}"
        );
    }
}

proptest! {
    #[test]
    fn reads_any_output(output: Vec<u8>, text in r#"\{"(ips|ip4|interfaces|routes)": ?.{0,40}\}"#) {
        let _ = AddResult::parse(&output, Version::DEFAULT);
        let _ = AddResult::parse(text.as_bytes(), Version::DEFAULT);
        let _ = config::parse(&text);
    }
}
