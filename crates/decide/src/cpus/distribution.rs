//! Takes CPUs from several NUMA nodes evenly (`distribute-cpus-across-numa`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use model::{CpuGroup, CpuPlacement, CpuTopology};
use values::cpu_set::CpuSet;

use super::accumulator::{Accumulator, TakeError, take_packed};
use super::combinations::{Combination, for_each};

/// Free CPUs of each NUMA node. Negative where upstream counts a node twice that belongs to two sockets.
type FreeCounts = BTreeMap<i32, i64>;

/// Takes `count` CPUs from as few NUMA nodes as possible, in multiples of `group_size`. Among nodes that can provide equal
/// shares, those are chosen that leave the most even numbers of free CPUs. Without such nodes the CPUs are packed.
pub(super) fn take_distributed(
    topology: &CpuTopology,
    available: &CpuSet,
    count: usize,
    group_size: usize,
) -> Result<CpuSet, TakeError> {
    let group_size = group_size.max(1);
    let packed = || take_packed(topology, available, count, CpuPlacement::AcrossNumaNodes);
    if !count.is_multiple_of(group_size) {
        return packed();
    }
    let mut accumulator = Accumulator::new(topology, available, count);
    if accumulator.is_satisfied() || count > accumulator.free.len() {
        return packed();
    }
    let nodes = accumulator.numa_nodes();
    let free: FreeCounts =
        nodes.iter().map(|id| (*id, to_count(accumulator.free_in(CpuGroup::NumaNode, *id).len()))).collect();
    let request = Request { count, group_size };
    for size in request.sizes(topology, free.len()) {
        if let Some(choice) = request.best_choice(&nodes, size, &free) {
            choice.take(&mut accumulator, request);
            return match accumulator.needed {
                0 => Ok(accumulator.taken),
                missing => Err(TakeError::Accounting(missing)),
            };
        }
    }
    packed()
}

#[derive(Clone, Copy)]
struct Request {
    count: usize,
    group_size: usize,
}

/// NUMA nodes for equal shares, and those of them for the CPUs that remain.
struct Choice {
    nodes: Combination,
    remainder: Option<Combination>,
}

impl Request {
    /// The numbers of NUMA nodes that can satisfy the request.
    fn sizes(self, topology: &CpuTopology, with_free: usize) -> std::ops::RangeInclusive<usize> {
        let all_nodes = topology.ids(CpuGroup::NumaNode).len().max(1);
        let groups_per_node = topology.cpus.len().div_ceil(self.group_size).div_ceil(all_nodes).max(1);
        let needed = self.count.div_ceil(self.group_size);
        needed.div_ceil(groups_per_node)..=needed.min(with_free)
    }

    /// The same number of CPUs for each of `nodes` nodes.
    fn share(self, nodes: usize) -> usize {
        self.count / nodes.max(1) / self.group_size * self.group_size
    }

    fn best_choice(self, nodes: &[i32], size: usize, free: &FreeCounts) -> Option<Choice> {
        let mut best: Option<(f64, Choice)> = None;
        let _ = for_each(nodes, size, &mut |combination| {
            if best.as_ref().is_some_and(|(balance, _)| *balance == 0.0) {
                return ControlFlow::Break(());
            }
            let members = combination.members();
            if let Some((balance, remainder)) = self.balance(&members, free)
                && best.as_ref().is_none_or(|(lowest, _)| balance < *lowest)
            {
                best = Some((balance, Choice { nodes: combination.clone(), remainder }));
            }
            ControlFlow::Continue(())
        });
        best.map(|(_, choice)| choice)
    }

    /// How unevenly CPUs would be free after taking from `members`; `None` if they cannot provide equal shares.
    fn balance(self, members: &[i32], free: &FreeCounts) -> Option<(f64, Option<Combination>)> {
        let free_of = |id: &i32| free.get(id).copied().unwrap_or(0);
        let (count, group_size) = (to_count(self.count), to_count(self.group_size));
        let share = to_count(self.share(members.len()));
        let distinct: BTreeSet<&i32> = members.iter().collect();
        let whole_groups: i64 = members.iter().map(|id| free_of(id) / group_size).sum();
        if distinct.into_iter().map(free_of).sum::<i64>() < count
            || whole_groups * group_size < count
            || members.iter().any(|id| free_of(id) < share)
        {
            return None;
        }
        let mut after = free.clone();
        for id in members {
            *after.entry(*id).or_default() -= share;
        }
        let remainder = count - share * to_count(members.len());
        if remainder == 0 {
            return Some((standard_deviation(&after), None));
        }
        let usable: Vec<i32> = members
            .iter()
            .copied()
            .filter(|id| after.get(id).is_some_and(|left| *left >= group_size))
            .collect();
        let mut best: Option<(f64, Combination)> = None;
        for size in (1..=usable.len()).rev() {
            let _ = for_each(&usable, size, &mut |subset| {
                let balance = self.balance_after_remainder(&subset.members(), remainder, &after);
                if let Some(balance) = balance
                    && best.as_ref().is_none_or(|(lowest, _)| balance < *lowest)
                {
                    best = Some((balance, subset.clone()));
                }
                ControlFlow::Continue(())
            });
        }
        best.map(|(balance, subset)| (balance, Some(subset)))
    }

    /// Takes the remainder from the subset in turn. Upstream never returns if whole groups do not suffice for it.
    fn balance_after_remainder(self, subset: &[i32], mut remainder: i64, free: &FreeCounts) -> Option<f64> {
        let mut after = free.clone();
        let group_size = to_count(self.group_size);
        while remainder > 0 {
            let before = remainder;
            for id in subset {
                let Some(left) = after.get_mut(id) else { continue };
                if remainder > 0 && *left >= group_size {
                    *left -= group_size;
                    remainder -= group_size;
                }
            }
            if remainder == before {
                return None;
            }
        }
        Some(standard_deviation(&after))
    }
}

impl Choice {
    fn take(&self, accumulator: &mut Accumulator<'_>, request: Request) {
        let nodes = self.nodes.members();
        let share = request.share(nodes.len());
        for node in &nodes {
            take_from(accumulator, *node, share);
        }
        let subset = self.remainder.as_ref().map(Combination::members).unwrap_or_default();
        let mut remainder = request.count - share * nodes.len();
        while remainder > 0 {
            let before = remainder;
            for node in &subset {
                let free = accumulator.free_in(CpuGroup::NumaNode, *node).len();
                if remainder > 0 && free >= request.group_size {
                    take_from(accumulator, *node, request.group_size);
                    remainder -= request.group_size;
                }
            }
            if remainder == before {
                return;
            }
        }
    }
}

/// Takes nothing if the node has too few free CPUs, which the accounting of the request then notices.
fn take_from(accumulator: &mut Accumulator<'_>, node: i32, count: usize) {
    let free = accumulator.free_in(CpuGroup::NumaNode, node);
    if let Ok(cpus) = take_packed(accumulator.topology, &free, count, CpuPlacement::AcrossNumaNodes) {
        accumulator.take(&cpus);
    }
}

fn to_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Rounded like upstream's, because ties between NUMA nodes depend on it.
fn standard_deviation(counts: &FreeCounts) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of CPUs are small")]
    let values: Vec<f64> = counts.values().map(|count| *count as f64).collect();
    let mean = rounded(average(&values));
    let squares: Vec<f64> = values.iter().map(|value| (value - mean) * (value - mean)).collect();
    rounded(average(&squares).sqrt())
}

#[expect(clippy::cast_precision_loss, reason = "numbers of NUMA nodes are small")]
fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
