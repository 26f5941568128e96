//! Disks of iSCSI targets: a loop device stands for the disk, a script for `iscsiadm`.

use model::IscsiDisk;

use super::*;

const TARGET: &str = "iqn.2001-04.com.example:storage";

/// An `iscsiadm` that notes what it is told, lets devices come with a login and go with a logout.
fn fake_initiator(host: &mut Host, disks: &[(i32, &Disk)]) {
    let devices = host.at("by-path");
    fs::create_dir(&devices).unwrap();
    let link = |lun: i32| devices.join(format!("ip-10.0.0.1:3260-iscsi-{TARGET}-lun-{lun}"));
    let come: Vec<String> = disks
        .iter()
        .map(|(lun, disk)| format!("ln -sfn {} {}", disk.device.display(), link(*lun).display()))
        .collect();
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> {asked}\ncase \"$*\" in\n*--login) [ ! -e {state} ] || exit 15; touch {state}; {come} ;;\n\
         *--logout) rm -f {state} {devices}/* ;;\nesac\n",
        asked = host.at("asked").display(),
        state = host.at("session").display(),
        come = come.join("; "),
        devices = devices.display(),
    );
    host.volumes.iscsi.program = program(&host.at("iscsiadm"), &text).into();
    host.volumes.iscsi.devices = devices;
}

fn disk(host: &Host, lun: i32, read_only: bool) -> VolumePlan {
    VolumePlan::Iscsi(IscsiDisk {
        path: host.pod(&format!("volumes/kubernetes.io~iscsi/data{lun}")),
        portals: vec!["10.0.0.1:3260".to_owned()],
        target: TARGET.to_owned(),
        lun,
        interface: "default".to_owned(),
        fs_type: "ext4".to_owned(),
        read_only,
        options: Vec::new(),
    })
}

fn asked(host: &Host, word: &str) -> usize {
    let text = fs::read_to_string(host.at("asked")).unwrap_or_default();
    text.lines().filter(|line| line.ends_with(word)).count()
}

#[tokio::test]
async fn a_disk_is_formatted_once_shared_and_logged_out_of_with_its_last_pod() {
    if !is_root() {
        return;
    }
    let mut host = Host::new();
    let device = Disk::new(&host, "disk");
    fake_initiator(&mut host, &[(0, &device)]);
    host.set_up_for(disk(&host, 0, false), Some(4321)).await.unwrap();
    host.set_up(disk(&host, 0, false)).await.unwrap();
    let volume = host.pod("volumes/kubernetes.io~iscsi/data0");
    assert_eq!(fs::metadata(&volume).unwrap().gid(), 4321, "the group has it");
    fs::write(volume.join("kept"), "x").unwrap();
    let place = host.at("kubelet/plugins/kubernetes.io/iscsi/iface-default");
    let place = place.join(format!("10.0.0.1:3260-{TARGET}-lun-0"));
    assert!(place.join("kept").exists(), "mounted where upstream has it");
    assert_eq!(journal(&host), ["bind\tvolumes/kubernetes.io~iscsi/data0"]);
    // Another pod has it, too: the first one to go takes nothing away.
    let first = std::mem::replace(&mut host.uid, PodUid::from("u2"));
    let VolumePlan::Iscsi(other) = disk(&host, 0, false) else { unreachable!() };
    let path = host.at("kubelet/pods/u2/volumes/kubernetes.io~iscsi/data0");
    host.set_up(VolumePlan::Iscsi(IscsiDisk { path: path.clone(), ..other })).await.unwrap();
    host.volumes.tear_down(&first).await.unwrap();
    assert_eq!(asked(&host, "--logout"), 0);
    assert!(path.join("kept").exists() && !volume.exists());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!((asked(&host, "--login"), asked(&host, "--logout")), (1, 1));
    assert_eq!(host.mounts(), []);
    assert!(!place.exists(), "nothing is left");
    // What was written is there the next time, and a reader cannot change it.
    host.uid = first;
    host.set_up(disk(&host, 0, true)).await.unwrap();
    assert_eq!(fs::read_to_string(volume.join("kept")).unwrap(), "x");
    assert!(fs::write(volume.join("kept"), "y").is_err());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
async fn two_disks_of_a_target_share_a_session() {
    if !is_root() {
        return;
    }
    let mut host = Host::new();
    let (one, two) = (Disk::new(&host, "one"), Disk::new(&host, "two"));
    fake_initiator(&mut host, &[(1, &one), (2, &two)]);
    host.set_up(disk(&host, 1, false)).await.unwrap();
    host.set_up(disk(&host, 2, false)).await.unwrap();
    assert_eq!((asked(&host, "--login"), asked(&host, "--rescan")), (2, 1));
    // A killed agent's successor finds everything it needs on disk.
    let initiator = host.volumes.iscsi.clone();
    host.volumes = HostPodVolumes::new(host.at("kubelet"));
    (host.volumes.iscsi.program, host.volumes.iscsi.devices) = (initiator.program, initiator.devices);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(asked(&host, "--logout"), 1);
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
async fn a_disk_that_does_not_come_is_told_and_left_behind_clean() {
    let mut host = Host::new();
    fake_initiator(&mut host, &[]);
    let error = host.set_up(disk(&host, 7, false)).await.unwrap_err().to_string();
    assert!(error.contains("timed out waiting for device") && error.contains("lun-7"), "{error}");
    assert_eq!(asked(&host, "--logout"), 1);
    assert!(!host.at("kubelet/plugins/kubernetes.io/iscsi/iface-default").exists());
    host.volumes.iscsi.program = host.at("nowhere/iscsiadm").into();
    let error = host.set_up(disk(&host, 7, false)).await.unwrap_err().to_string();
    assert!(error.contains("install the package open-iscsi"), "{error}");
}
