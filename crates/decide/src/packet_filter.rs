//! The chains that a node agent keeps in the packet filter.
//!
//! - `KUBE-IPTABLES-HINT` tells programs in containers which flavour of `iptables` the machine uses.
//! - `KUBE-FIREWALL` drops packets to 127.0.0.0/8 that come from elsewhere: a machine beside this one could otherwise
//!   reach what listens on loopback alone, because `route_localnet` is set for ports of the node. IPv6 has no such
//!   setting and needs no such rule.
//! - `KUBE-KUBELET-CANARY` is empty. When it is gone, a firewall was reloaded and took the others with it.

use model::{FilterChain, FilterPlan, FilterRule, IpFamily, RulePlace};

const HINT: FilterChain = FilterChain { table: "mangle", name: "KUBE-IPTABLES-HINT" };
const FIREWALL: FilterChain = FilterChain { table: "filter", name: "KUBE-FIREWALL" };
const CANARY: &str = "KUBE-KUBELET-CANARY";
/// Tables that are emptied together when a firewall is reloaded.
const WATCHED: [&str; 3] = ["mangle", "nat", "filter"];

/// What the filter of a family is to have.
#[must_use]
pub fn utility_chains(family: IpFamily) -> FilterPlan {
    let mut chains = vec![HINT];
    let mut rules = Vec::new();
    if family == IpFamily::V4 {
        chains.push(FIREWALL);
        rules.push(FilterRule { chain: FIREWALL, place: RulePlace::Last, words: loopback_only() });
        rules.extend(["OUTPUT", "INPUT"].map(|name| FilterRule {
            chain: FilterChain { table: FIREWALL.table, name },
            place: RulePlace::First,
            words: vec!["-j", FIREWALL.name],
        }));
    }
    FilterPlan { chains, rules, canaries: WATCHED.map(|table| FilterChain { table, name: CANARY }) }
}

fn loopback_only() -> Vec<&'static str> {
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
    fn ipv4_has_the_firewall_and_ipv6_only_the_hint() {
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
                WATCHED.map(|table| (table, CANARY))
            );
        }
    }

    #[test]
    fn rules_name_only_chains_that_are_made_or_always_there() {
        let plan = utility_chains(IpFamily::V4);
        for rule in &plan.rules {
            let built_in = ["INPUT", "OUTPUT"].contains(&rule.chain.name);
            assert!(built_in || plan.chains.contains(&rule.chain), "{rule:?}");
        }
    }
}
