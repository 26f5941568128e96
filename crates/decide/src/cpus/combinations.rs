//! Combinations of NUMA nodes, enumerated like upstream does it.
//!
//! Upstream appends to a slice that combinations with the same beginning share once it has room for more elements. A
//! combination that is kept while the enumeration continues can therefore change its last members. The choice of NUMA
//! nodes depends on this where four or more of at least five nodes are needed, so it is reproduced here.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

/// A view of the first elements of an array that other combinations may share.
#[derive(Clone, Debug)]
pub(super) struct Combination {
    array: Rc<RefCell<Vec<i32>>>,
    capacity: usize,
    length: usize,
}

impl Combination {
    fn empty() -> Self {
        Self { array: Rc::default(), capacity: 0, length: 0 }
    }

    /// The members as they are now.
    pub(super) fn members(&self) -> Vec<i32> {
        self.array.borrow().iter().take(self.length).copied().collect()
    }

    fn with(&self, member: i32) -> Self {
        let length = self.length + 1;
        if length <= self.capacity {
            let mut array = self.array.borrow_mut();
            match array.get_mut(self.length) {
                Some(slot) => *slot = member,
                None => array.push(member),
            }
            drop(array);
            return Self { array: Rc::clone(&self.array), capacity: self.capacity, length };
        }
        let mut members = self.members();
        members.push(member);
        Self { array: Rc::new(RefCell::new(members)), capacity: length.next_power_of_two(), length }
    }
}

/// Calls `visit` with every combination of `size` members, in lexicographic order of their positions.
pub(super) fn for_each(
    all: &[i32],
    size: usize,
    visit: &mut dyn FnMut(&Combination) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if size == 0 { ControlFlow::Continue(()) } else { extend(all, size, &Combination::empty(), visit) }
}

fn extend(
    rest: &[i32],
    missing: usize,
    chosen: &Combination,
    visit: &mut dyn FnMut(&Combination) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if missing == 0 {
        return visit(chosen);
    }
    let starts = (rest.len() + 1).saturating_sub(missing);
    for (index, member) in rest.iter().enumerate().take(starts) {
        let behind = rest.get(index + 1..).unwrap_or_default();
        extend(behind, missing - 1, &chosen.with(*member), visit)?;
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(all: &[i32], size: usize) -> Vec<Vec<i32>> {
        let mut found = Vec::new();
        let _ = for_each(all, size, &mut |combination| {
            found.push(combination.members());
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn enumerates_in_lexicographic_order() {
        assert_eq!(all_of(&[7, 5, 6], 2), [[7, 5], [7, 6], [5, 6]]);
        assert_eq!(all_of(&[7, 5], 2), [[7, 5]]);
        assert!(all_of(&[7, 5], 3).is_empty());
        assert!(all_of(&[7, 5], 0).is_empty());
        assert_eq!(all_of(&[0, 1, 2, 3, 4, 5, 6, 7], 4).len(), 70);
    }

    #[test]
    fn kept_combination_changes_with_the_next_of_the_same_beginning() {
        let kept_of_size = |size| {
            let mut kept = None;
            let _ = for_each(&[0, 1, 2, 3, 4, 5], size, &mut |combination| {
                kept.get_or_insert_with(|| combination.clone());
                ControlFlow::Continue(())
            });
            kept.unwrap().members()
        };
        assert_eq!(kept_of_size(3), [0, 1, 2]);
        assert_eq!(kept_of_size(4), [0, 1, 2, 5]);
        assert_eq!(kept_of_size(5), [0, 1, 2, 3, 4]);
    }
}
