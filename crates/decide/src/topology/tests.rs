use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use model::{NumaMask, NumaNode, ProviderHints, ResourceHints, TopologyHint};
use proptest::prelude::*;
use serde::Deserialize;

use super::*;

/// Written by upstream's code: `cpusets hints 4000 1`.
const MERGES: &[u8] = include_bytes!("../../testdata/topology_hints.txt.gz");

#[derive(Deserialize)]
struct Hint {
    m: Option<u64>,
    p: bool,
}

#[derive(Deserialize)]
struct Merge {
    nodes: Vec<i32>,
    distances: Vec<Vec<u64>>,
    policy: String,
    closest: bool,
    providers: Vec<BTreeMap<String, Option<Vec<Hint>>>>,
    result: Hint,
    admitted: bool,
}

impl Hint {
    fn hint(&self) -> TopologyHint {
        let nodes = |bits: u64| NumaMask::of((0..64).filter(|node| bits & (1 << node) != 0));
        TopologyHint { nodes: self.m.map(nodes), preferred: self.p }
    }
}

impl Merge {
    fn alignment(&self) -> Alignment {
        let machine = self.nodes.iter().zip(&self.distances);
        let machine: Vec<NumaNode> = machine
            .map(|(id, own)| NumaNode { id: *id, distances: Some(own.clone()), ..NumaNode::default() })
            .collect();
        let policy = match self.policy.as_str() {
            "best-effort" => AlignmentPolicy::BestEffort,
            "restricted" => AlignmentPolicy::Restricted,
            _ => AlignmentPolicy::SingleNumaNode,
        };
        let options = AlignmentOptions { prefer_closest: self.closest, ..AlignmentOptions::default() };
        Alignment::new(policy, AlignmentScope::Pod, options, &machine).unwrap()
    }

    fn hints(&self) -> Vec<ProviderHints> {
        let resource = |hints: &Option<Vec<Hint>>| match hints {
            None => ResourceHints::NoPreference,
            Some(hints) => ResourceHints::OneOf(hints.iter().map(Hint::hint).collect()),
        };
        let provider = |hints: &BTreeMap<String, Option<Vec<Hint>>>| {
            hints.iter().map(|(name, hints)| (name.clone(), resource(hints))).collect()
        };
        self.providers.iter().map(provider).collect()
    }
}

#[test]
fn every_merge_equals_upstreams() {
    let mut text = String::new();
    GzDecoder::new(MERGES).read_to_string(&mut text).unwrap();
    let mut count = 0;
    for line in text.lines() {
        let merge: Merge = serde_json::from_str(line).unwrap();
        let expected = MergedHint { hint: merge.result.hint(), is_admitted: merge.admitted };
        assert_eq!(merge.alignment().merge(&merge.hints()), expected, "{line}");
        count += 1;
    }
    assert_eq!(count, 4000);
}

fn nodes(count: i32) -> Vec<NumaNode> {
    (0..count).map(|id| NumaNode { id, ..NumaNode::default() }).collect()
}

fn alignment(policy: AlignmentPolicy, count: i32) -> Result<Alignment, AlignmentError> {
    Alignment::new(policy, AlignmentScope::Container, AlignmentOptions::default(), &nodes(count))
}

#[test]
fn more_than_eight_numa_nodes_need_the_option() {
    let error = alignment(AlignmentPolicy::BestEffort, 9).unwrap_err();
    assert_eq!(error.to_string(), "unsupported on machines with more than 8 NUMA Nodes");
    let options = AlignmentOptions { max_nodes: 9, ..AlignmentOptions::default() };
    let scope = AlignmentScope::Container;
    Alignment::new(AlignmentPolicy::BestEffort, scope, options, &nodes(9)).unwrap();
}

#[test]
fn closest_nodes_need_distances() {
    let options = AlignmentOptions { prefer_closest: true, ..AlignmentOptions::default() };
    let scope = AlignmentScope::Container;
    let error = Alignment::new(AlignmentPolicy::Restricted, scope, options, &nodes(2)).unwrap_err();
    let text = "cannot discover NUMA topology: error getting NUMA distances from cadvisor";
    assert_eq!(error.to_string(), text);
}

#[test]
fn only_best_effort_admits_resources_on_different_nodes() {
    let on = |node| {
        let hint = TopologyHint { nodes: Some(NumaMask::of([node])), preferred: true };
        ProviderHints::from([(format!("r{node}"), ResourceHints::OneOf(vec![hint]))])
    };
    for (policy, admitted) in [
        (AlignmentPolicy::BestEffort, true),
        (AlignmentPolicy::Restricted, false),
        (AlignmentPolicy::SingleNumaNode, false),
    ] {
        let alignment = alignment(policy, 2).unwrap();
        assert_eq!(alignment.merge(&[on(0), on(1)]).is_admitted, admitted, "{policy:?}");
        assert!(alignment.merge(&[on(1), on(1), ProviderHints::new()]).is_admitted, "{policy:?}");
    }
}

/// Upstream compares all 255^4 combinations.
#[test]
fn merge_of_many_hints_on_eight_nodes_ends() {
    let every: Vec<TopologyHint> = (1..256_u64)
        .map(|bits| {
            let nodes = NumaMask::of((0..8).filter(|node| bits & (1 << node) != 0));
            TopologyHint { nodes: Some(nodes), preferred: nodes.count() == 3 }
        })
        .collect();
    let resources = ["a", "b", "c", "d"].map(|name| (name.to_owned(), ResourceHints::OneOf(every.clone())));
    let merged = alignment(AlignmentPolicy::Restricted, 8).unwrap().merge(&[resources.into()]);
    assert_eq!(merged.hint, TopologyHint { nodes: Some(NumaMask::of([0, 1, 2])), preferred: true });
}

fn some_hints() -> impl Strategy<Value = Vec<TopologyHint>> {
    let hint = (1..16_u64, any::<bool>()).prop_map(|(bits, preferred)| {
        let nodes = NumaMask::of((0..4).filter(|node| bits & (1 << node) != 0));
        TopologyHint { nodes: Some(nodes), preferred }
    });
    proptest::collection::vec(hint, 1..6)
}

proptest! {
    #[test]
    fn preferred_result_is_a_hint_of_every_provider(
        one in some_hints(), other in some_hints(),
        policy in prop::sample::select(vec![AlignmentPolicy::BestEffort, AlignmentPolicy::Restricted, AlignmentPolicy::SingleNumaNode]),
    ) {
        let provider = |hints: &[TopologyHint]| {
            ProviderHints::from([("r".to_owned(), ResourceHints::OneOf(hints.to_vec()))])
        };
        let merged = alignment(policy, 4).unwrap().merge(&[provider(&one), provider(&other)]).hint;
        if merged.preferred && merged.nodes.is_some() {
            prop_assert!(one.contains(&merged) && other.contains(&merged), "{merged:?}");
        }
        if let Some(nodes) = merged.nodes {
            let widest = |hints: &[TopologyHint]| hints.iter().any(|hint| hint.nodes.is_some_and(|own| nodes.is_subset(own)));
            prop_assert!(nodes == NumaMask::of(0..4) || (widest(&one) && widest(&other)));
        }
    }
}
