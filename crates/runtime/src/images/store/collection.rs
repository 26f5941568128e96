//! Removes content that nothing refers to.

use std::collections::BTreeSet;

use super::disk::{StoreError, names, remove};
use super::lock::FileLock;
use super::{ImageStore, roots};

impl ImageStore {
    /// Removes layers, blobs and incomplete content that no image and no container uses. While a pull runs, only its
    /// end or the next start does so.
    pub fn collect(&self) -> Result<(), StoreError> {
        let folders = &self.inner.folders;
        let Some(_unused) = FileLock::try_exclusive(&folders.use_lock())? else { return Ok(()) };
        let _lock = self.lock()?;
        let mut layers = BTreeSet::new();
        let mut blobs = BTreeSet::new();
        for record in self.inner.records.all()? {
            layers.extend(record.layers.iter().map(|layer| layer.chain_id.hex().to_owned()));
            blobs.extend(record.blobs.iter().map(|digest| digest.hex().to_owned()));
        }
        for root in roots::all(folders)? {
            layers.extend(root.layers.iter().map(|layer| layer.chain_id.hex().to_owned()));
        }
        for (folder, used) in
            [(folders.layers(), layers), (folders.blobs(), blobs), (folders.staging(), BTreeSet::new())]
        {
            for name in names(&folder)?.into_iter().filter(|name| !used.contains(name)) {
                remove(&folder.join(name))?;
            }
        }
        Ok(())
    }
}
