use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use super::*;

const HINT: FilterChain = FilterChain { table: "mangle", name: "PW-HINT" };
const DROPS: FilterChain = FilterChain { table: "filter", name: "PW-DROPS" };
const CANARY: FilterChain = FilterChain { table: "filter", name: "PW-CANARY" };

/// A network namespace with an empty filter, and programs that run in it.
struct Namespace {
    name: String,
    folder: tempfile::TempDir,
}

impl Namespace {
    fn new(label: &str) -> Self {
        let name = format!("pw-filter-{label}-{}", std::process::id());
        run("ip", &["netns", "add", &name]);
        let folder = tempfile::tempdir().unwrap();
        for program in ["iptables", "ip6tables"] {
            let path = folder.path().join(program);
            std::fs::write(&path, format!("#!/bin/sh\nexec ip netns exec {name} {program} \"$@\"\n"))
                .unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { name, folder }
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn filter(&self) -> IptablesFilter {
        IptablesFilter::new(self.program("iptables"), self.program("ip6tables"))
    }

    /// The rules of a table.
    fn rules(&self, program: &str, table: &str) -> Vec<String> {
        let path = self.program(program);
        let output = Command::new(path).args(["-t", table, "-S"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).status();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}

fn plan() -> FilterPlan {
    let input = FilterChain { table: "filter", name: "INPUT" };
    FilterPlan {
        chains: vec![HINT, DROPS],
        rules: vec![
            FilterRule { chain: DROPS, place: RulePlace::Last, words: vec!["-p", "tcp", "-j", "DROP"] },
            FilterRule { chain: input, place: RulePlace::First, words: vec!["-j", DROPS.name] },
        ],
        canaries: ["filter", "mangle", "nat"].map(|table| FilterChain { table, name: CANARY.name }),
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn creates_missing_rules_once_and_keeps_foreign_rules() {
    let namespace = Namespace::new("ensure");
    let filter = namespace.filter();
    let program = namespace.program("iptables").display().to_string();
    run(&program, &["-A", "INPUT", "-s", "192.0.2.7/32", "-j", "ACCEPT"]);
    assert_eq!(filter.has(IpFamily::V4, CANARY).await, Ok(false));
    for _ in 0..2 {
        filter.ensure(IpFamily::V4, &plan()).await.unwrap();
        let rules = namespace.rules("iptables", "filter");
        let expected = [
            "-P INPUT ACCEPT",
            "-P FORWARD ACCEPT",
            "-P OUTPUT ACCEPT",
            "-N PW-CANARY",
            "-N PW-DROPS",
            "-A INPUT -j PW-DROPS",
            "-A INPUT -s 192.0.2.7/32 -j ACCEPT",
            "-A PW-DROPS -p tcp -j DROP",
        ];
        assert_eq!(rules, expected, "nothing is created twice");
        assert!(namespace.rules("iptables", "mangle").contains(&"-N PW-HINT".to_owned()));
    }
    assert_eq!(filter.has(IpFamily::V4, CANARY).await, Ok(true));
    assert_eq!(filter.has(IpFamily::V6, CANARY).await, Ok(false), "each family has its own filter");
}

#[tokio::test]
#[ignore = "needs root"]
async fn restores_flushed_rules() {
    let namespace = Namespace::new("flush");
    let filter = namespace.filter();
    filter.ensure(IpFamily::V6, &plan()).await.unwrap();
    let program = namespace.program("ip6tables").display().to_string();
    run(&program, &["-F"]);
    run(&program, &["-X"]);
    assert_eq!(filter.has(IpFamily::V6, CANARY).await, Ok(false));
    filter.ensure(IpFamily::V6, &plan()).await.unwrap();
    assert!(namespace.rules("ip6tables", "filter").contains(&"-A INPUT -j PW-DROPS".to_owned()));
}

#[tokio::test]
#[ignore = "needs root"]
async fn errors_name_the_program_and_its_arguments() {
    let missing = IptablesFilter::new("no-such-iptables", "no-such-ip6tables");
    let error = missing.ensure(IpFamily::V4, &plan()).await.unwrap_err();
    assert_eq!(error, PacketFilterError::Missing("no-such-iptables".to_owned()));

    let namespace = Namespace::new("bad");
    let rule = FilterRule { chain: DROPS, place: RulePlace::Last, words: vec!["--no-such-option"] };
    let plan = FilterPlan { rules: vec![rule], ..plan() };
    let error = namespace.filter().ensure(IpFamily::V4, &plan).await.unwrap_err().to_string();
    assert!(error.contains("-w 5 -t filter -C PW-DROPS --no-such-option: exit status 2: "), "{error}");
    assert_eq!(namespace.filter().has(IpFamily::V4, CANARY).await, Ok(false), "the canary is created last");
}
