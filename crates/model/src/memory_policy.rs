/// Whether containers of Guaranteed pods have memory on particular NUMA nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryManagerPolicy {
    #[default]
    None,
    Static,
}
