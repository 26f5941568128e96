use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// A map that forgets what was not set for the longest time.
#[derive(Debug)]
pub struct Recent<K, V> {
    capacity: usize,
    turn: u64,
    rows: HashMap<K, (u64, V)>,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// A map for that many rows.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), turn: 0, rows: HashMap::new() }
    }

    /// One row.
    #[must_use]
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.rows.get(key).map(|(_, value)| value)
    }

    /// Takes a row out.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.rows.remove(key).map(|(_, value)| value)
    }

    /// Sets a row.
    pub fn set(&mut self, key: K, value: V) {
        self.turn += 1;
        self.rows.insert(key, (self.turn, value));
        if self.rows.len() > self.capacity {
            // Half of it at once, so that a full map is not gone through for each row.
            let mut turns: Vec<u64> = self.rows.values().map(|(turn, _)| *turn).collect();
            let middle = turns.len() / 2;
            let (_, oldest_kept, _) = turns.select_nth_unstable(middle);
            let oldest_kept = *oldest_kept;
            self.rows.retain(|_, (turn, _)| *turn >= oldest_kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rows_go_first() {
        let mut recent = Recent::new(4);
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
