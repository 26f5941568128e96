//! The iptables chains that a kubelet maintains.
//!
//! - `KUBE-IPTABLES-HINT` lets programs in containers detect which `iptables` variant the host uses.
//! - `KUBE-FIREWALL` drops packets to 127.0.0.0/8 from other hosts. Without it, neighbours could reach services that
//!   listen on loopback only, because node ports set `route_localnet`. IPv6 has no such setting and needs no rule.
//! - `KUBE-KUBELET-CANARY` is empty. If it disappears, a firewall reload has removed all chains.

use model::{FilterChain, FilterPlan, FilterRule, IpFamily, RulePlace};

const HINT: FilterChain = FilterChain { table: "mangle", name: "KUBE-IPTABLES-HINT" };
const FIREWALL: FilterChain = FilterChain { table: "filter", name: "KUBE-FIREWALL" };
const CANARY: &str = "KUBE-KUBELET-CANARY";
/// Tables that a firewall reload clears together.
const CANARY_TABLES: [&str; 3] = ["mangle", "nat", "filter"];

pub fn utility_chains(family: IpFamily) -> FilterPlan {
    let mut chains = vec![HINT];
    let mut rules = Vec::new();
    if family == IpFamily::V4 {
        chains.push(FIREWALL);
        rules.push(FilterRule {
            chain: FIREWALL,
            place: RulePlace::Last,
            words: drop_external_loopback_rule(),
        });
        rules.extend(["OUTPUT", "INPUT"].map(|name| FilterRule {
            chain: FilterChain { table: FIREWALL.table, name },
            place: RulePlace::First,
            words: vec!["-j", FIREWALL.name],
        }));
    }
    FilterPlan { chains, rules, canaries: CANARY_TABLES.map(|table| FilterChain { table, name: CANARY }) }
}

fn drop_external_loopback_rule() -> Vec<&'static str> {
    let comment = ["-m", "comment", "--comment", "block incoming localnet connections"];
    let addresses = ["--dst", "127.0.0.0/8", "!", "--src", "127.0.0.0/8"];
    let state = ["-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP"];
    [comment.as_slice(), &addresses, &state].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plan: &FilterPlan) -> Vec<(&str, &str)> {
        plan.chains.iter().map(|chain| (chain.table, chain.name)).collect()
    }

    #[test]
    fn ipv4_has_firewall_chain_and_ipv6_only_hint() {
        let hint = ("mangle", "KUBE-IPTABLES-HINT");
        let v4 = utility_chains(IpFamily::V4);
        assert_eq!(names(&v4), [hint, ("filter", "KUBE-FIREWALL")]);
        let jumps: Vec<_> = v4.rules.iter().map(|rule| (rule.chain.name, rule.place)).collect();
        let (first, last) = (RulePlace::First, RulePlace::Last);
        assert_eq!(jumps, [("KUBE-FIREWALL", last), ("OUTPUT", first), ("INPUT", first)]);
        let v6 = utility_chains(IpFamily::V6);
        assert_eq!((names(&v6), v6.rules.len()), (vec![hint], 0));
        for plan in [v4, v6] {
            assert_eq!(
                plan.canaries.map(|chain| (chain.table, chain.name)),
                CANARY_TABLES.map(|table| (table, CANARY))
            );
        }
    }

    #[test]
    fn rules_reference_only_existing_chains() {
        let plan = utility_chains(IpFamily::V4);
        for rule in &plan.rules {
            let built_in = ["INPUT", "OUTPUT"].contains(&rule.chain.name);
            assert!(built_in || plan.chains.contains(&rule.chain), "{rule:?}");
        }
    }
}
