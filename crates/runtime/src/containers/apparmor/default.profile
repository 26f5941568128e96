#include <tunables/global>

# Containers that name no profile of their own.
profile cri-containerd.apparmor.d flags=(attach_disconnected,mediate_deleted) {
  #include <abstractions/base>

  network,
  capability,
  file,
  umount,
  deny mount,

  # What is outside may end containers; they may signal and trace only one another.
  signal (receive) peer=unconfined,
  signal (send, receive) peer=cri-containerd.apparmor.d,
  ptrace (trace, read, tracedby, readby) peer=cri-containerd.apparmor.d,

  # In /proc only the folders of processes and the settings of shared memory can be written.
  deny @{PROC}/* w,
  deny @{PROC}/[^1-9s]*/** w,
  deny @{PROC}/s[^y]*/** w,
  deny @{PROC}/sy[^s]*/** w,
  deny @{PROC}/sys?*/** w,
  deny @{PROC}/sys/[^k]** w,
  deny @{PROC}/sys/k[^e]** w,
  deny @{PROC}/sys/ke[^r]** w,
  deny @{PROC}/sys/kernel/? w,
  deny @{PROC}/sys/kernel/?? w,
  deny @{PROC}/sys/kernel/[^s]** w,
  deny @{PROC}/sys/kernel/s[^h]** w,
  deny @{PROC}/sys/kernel/sh[^m]** w,
  deny @{PROC}/sysrq-trigger rwklx,
  deny @{PROC}/kcore rwklx,

  # In /sys only cgroups can be written, and what describes the machine's firmware and power cannot be read.
  deny /sys/[^f]** wklx,
  deny /sys/f[^s]** wklx,
  deny /sys/fs/[^c]** wklx,
  deny /sys/fs/c[^g]** wklx,
  deny /sys/fs/cg[^r]** wklx,
  deny /sys/firmware/** rwklx,
  deny /sys/devices/virtual/powercap/** rwklx,
  deny /sys/kernel/security/** rwklx,
}
