//! The pulls that are under way, for a display.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::pull::PullProgress;

/// Clones share the table.
#[derive(Clone, Debug, Default)]
pub struct PullTable {
    pulls: Arc<Mutex<Pulls>>,
}

#[derive(Debug, Default)]
struct Pulls {
    next: u64,
    /// Image and progress, in the order of their starts.
    running: BTreeMap<u64, (String, watch::Receiver<PullProgress>)>,
}

/// Removes its pull from the table when dropped.
#[derive(Debug)]
pub(super) struct TablePull {
    table: PullTable,
    number: u64,
}

impl PullTable {
    /// Images with the progress of their pulls.
    #[must_use]
    pub fn running(&self) -> Vec<(String, PullProgress)> {
        let pulls = self.pulls.lock();
        pulls.running.values().map(|(image, progress)| (image.clone(), progress.borrow().clone())).collect()
    }

    pub(super) fn begin(&self, image: &str) -> (watch::Sender<PullProgress>, TablePull) {
        let (sender, receiver) = watch::channel(PullProgress::default());
        let mut pulls = self.pulls.lock();
        let number = pulls.next;
        pulls.next += 1;
        pulls.running.insert(number, (image.to_owned(), receiver));
        (sender, TablePull { table: self.clone(), number })
    }
}

impl Drop for TablePull {
    fn drop(&mut self) {
        self.table.pulls.lock().running.remove(&self.number);
    }
}

impl PullProgress {
    /// Bytes that were fetched, of all layers.
    #[must_use]
    pub fn fetched(&self) -> u64 {
        self.layers.iter().map(|layer| layer.fetched).sum()
    }

    /// Bytes of all layers; 0 until the manifest is known.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layers.iter().map(|layer| layer.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_is_in_the_table_until_it_ends() {
        let table = PullTable::default();
        let (_first, first) = table.begin("a");
        let (_second, _second_pull) = table.begin("a");
        assert_eq!(table.running().len(), 2);
        drop(first);
        assert_eq!(table.running().len(), 1);
    }
}
