/// Who this machine is and what it runs; empty where the machine does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// The firmware's id.
    pub system_uuid: String,
    /// New at each boot.
    pub boot_id: String,
    /// Release of the running kernel.
    pub kernel: String,
    /// Name of the distribution.
    pub os_image: String,
    /// Size of all swap in bytes.
    pub swap_bytes: u64,
}
