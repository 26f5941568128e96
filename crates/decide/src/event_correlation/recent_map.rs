use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A bounded map that drops the entries that were set longest ago.
#[derive(Debug)]
pub struct RecentMap<K, V> {
    capacity: usize,
    sequence: u64,
    entries: HashMap<K, (u64, V)>,
}

impl<K: Eq + Hash, V> RecentMap<K, V> {
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), sequence: 0, entries: HashMap::new() }
    }

    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.get(key).map(|(_, value)| value)
    }

    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.entries.remove(key).map(|(_, value)| value)
    }

    pub fn set(&mut self, key: K, value: V) {
        self.sequence += 1;
        self.entries.insert(key, (self.sequence, value));
        if self.entries.len() > self.capacity {
            // Drop half at once, so that a full map is not scanned for each insertion.
            let mut sequences: Vec<u64> = self.entries.values().map(|(sequence, _)| *sequence).collect();
            let middle = sequences.len() / 2;
            let (_, oldest_kept, _) = sequences.select_nth_unstable(middle);
            let oldest_kept = *oldest_kept;
            self.entries.retain(|_, (sequence, _)| *sequence >= oldest_kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_oldest_entries_first() {
        let mut recent = RecentMap::new(4);
        for number in 0..4 {
            recent.set(number, number);
        }
        recent.set(0, 10);
        recent.set(4, 4);
        assert_eq!(recent.get(&0), Some(&10), "set again");
        assert_eq!(recent.get(&4), Some(&4));
        assert_eq!(recent.get(&1), None);
        assert_eq!(recent.remove(&4), Some(4));
        assert_eq!(recent.get(&4), None);
    }
}
