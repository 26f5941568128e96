/// Identity and versions of the machine; empty where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// `/etc/machine-id`.
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
    /// Release of the running kernel.
    pub kernel: String,
    pub os_image: String,
    /// Size of all swap in bytes.
    pub swap_bytes: u64,
}
