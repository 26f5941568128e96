//! iSCSI disks, with loop devices and a script that imitates `iscsiadm` and the kernel.

use model::{Chap, DiskUse, IscsiDisk, OwnInitiator, VolumeSecret};

use super::*;

const TARGET: &str = "iqn.2001-04.com.example:storage";

/// A fake `iscsiadm` that records its calls. A login adds hosts and devices, a logout removes them. The portal 10.0.0.9
/// does not respond, and a login with a wrong password fails.
fn fake_initiator(host: &mut Host, disks: &[(i32, &LoopDisk)]) {
    let (dev, sys) = (host.path_of("dev"), host.path_of("sys"));
    fs::create_dir_all(dev.join("disk/by-path")).unwrap();
    let add_disks: Vec<String> = disks
        .iter()
        .map(|(lun, disk)| {
            let device = disk.device.display();
            format!(
                "name=$(basename {device}); mkdir -p $session/target$n:0:0/$n:0:0:{lun}/block/$name; \
                 mkdir -p $sys/block/$name/device; touch $sys/block/$name/device/delete; ln -sfn {device} $dev/$name; \
                 ln -sfn {device} $dev/disk/by-path/ip-$portal-iscsi-{TARGET}-lun-{lun}"
            )
        })
        .collect();
    let text = format!(
        r#"#!/bin/sh
echo "$@" >> {calls}
dev={dev}; sys={sys}; portal=; last=
for word in "$@"; do [ "$last" != -p ] || portal=$word; last=$word; done
address=${{portal%:*}}; n=${{address##*.}}
session=$sys/class/iscsi_host/host$n/device/session$n
connection=$session/connection$n:0/iscsi_connection/connection$n:0
case "$*" in
*"-m iface"*"-o show") printf 'iface.iscsi_ifacename = default
iface.transport_name = tcp
iface.mtu = 1500
' ;;
*"--discover") [ $n != 9 ] || exit 4 ;;
*"password -v wrong") touch {refused} ;;
*--login)
    [ ! -e {refused} ] || exit 24
    mkdir -p $session/iscsi_session/session$n $connection $sys/class/scsi_host/host$n
    echo {TARGET} > $session/iscsi_session/session$n/targetname
    for kind in "" persistent_; do echo $address > $connection/${{kind}}address; echo 3260 > $connection/${{kind}}port; done
    touch $sys/class/scsi_host/host$n/scan
    {add_disks} ;;
*--logout) rm -rf $sys/class/iscsi_host/host$n $dev/disk/by-path/ip-$portal-* ;;
esac
"#,
        calls = host.path_of("calls").display(),
        refused = host.path_of("refused").display(),
        dev = dev.display(),
        sys = sys.display(),
        add_disks = if add_disks.is_empty() { ":".to_owned() } else { add_disks.join("\n    ") },
    );
    let multipath = format!("#!/bin/sh\necho \"$@\" >> {}\n", host.path_of("flushed").display());
    let iscsi = &mut host.volumes.iscsi;
    (iscsi.disks.devices, iscsi.disks.kernel) = (dev, sys);
    iscsi.attach_timeout = Duration::from_millis(300);
    let (initiator, multipath) =
        (program(&host.path_of("iscsiadm"), &text), program(&host.path_of("multipath"), &multipath));
    host.volumes.iscsi.program = initiator.into();
    host.volumes.iscsi.disks.multipath_program = multipath.into();
}

fn plain(host: &Host, lun: i32, read_only: bool) -> IscsiDisk {
    IscsiDisk {
        path: host.pod(&format!("volumes/kubernetes.io~iscsi/data{lun}")),
        name: format!("data{lun}"),
        portals: vec!["10.0.0.1:3260".to_owned()],
        target: TARGET.to_owned(),
        lun,
        interface: "default".to_owned(),
        initiator: None,
        chap: Chap::default(),
        attachment: String::new(),
        use_as: DiskUse::Files { fs_type: "ext4".to_owned(), options: Vec::new() },
        read_only,
    }
}

fn disk(host: &Host, lun: i32, read_only: bool) -> VolumePlan {
    VolumePlan::Iscsi(Box::new(plain(host, lun, read_only)))
}

fn calls(host: &Host) -> String {
    fs::read_to_string(host.path_of("calls")).unwrap_or_default()
}

fn count_calls(host: &Host, suffix: &str) -> usize {
    calls(host).lines().filter(|line| line.ends_with(suffix)).count()
}

#[tokio::test]
#[ignore = "needs root"]
async fn disk_is_formatted_once_shared_and_logged_out_with_its_last_pod() {
    require_root();
    let mut host = Host::new();
    let device = LoopDisk::new(&host, "disk");
    fake_initiator(&mut host, &[(0, &device)]);
    host.set_up_for(disk(&host, 0, false), Some(4321)).await.unwrap();
    host.set_up(disk(&host, 0, false)).await.unwrap();
    let volume = host.pod("volumes/kubernetes.io~iscsi/data0");
    assert_eq!(fs::metadata(&volume).unwrap().gid(), 4321, "the group is set");
    fs::write(volume.join("kept"), "x").unwrap();
    let mount_point = host.path_of("kubelet/plugins/kubernetes.io/iscsi/iface-default");
    let mount_point = mount_point.join(format!("10.0.0.1:3260-{TARGET}-lun-0"));
    assert!(mount_point.join("kept").exists(), "mounted in upstream's location");
    assert_eq!(journal(&host), ["bind\tvolumes/kubernetes.io~iscsi/data0"]);
    // A second pod uses the disk: tearing down the first pod does not detach it.
    let first = std::mem::replace(&mut host.uid, PodUid::from("u2"));
    let VolumePlan::Iscsi(other) = disk(&host, 0, false) else { unreachable!() };
    let path = host.path_of("kubelet/pods/u2/volumes/kubernetes.io~iscsi/data0");
    let other = IscsiDisk { path: path.clone(), ..*other };
    host.set_up(VolumePlan::Iscsi(Box::new(other))).await.unwrap();
    host.volumes.tear_down(&first).await.unwrap();
    assert_eq!(count_calls(&host, "--logout"), 0);
    assert!(path.join("kept").exists() && !volume.exists());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!((count_calls(&host, "--login"), count_calls(&host, "--logout")), (1, 1));
    assert_eq!(host.mounts(), []);
    assert!(!mount_point.exists(), "nothing is left");
    // The data is still there the next time, and a read-only volume cannot be changed.
    host.uid = first;
    host.set_up(disk(&host, 0, true)).await.unwrap();
    assert_eq!(fs::read_to_string(volume.join("kept")).unwrap(), "x");
    assert!(fs::write(volume.join("kept"), "y").is_err());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn disks_of_one_target_share_a_session() {
    require_root();
    let mut host = Host::new();
    let (one, two) = (LoopDisk::new(&host, "one"), LoopDisk::new(&host, "two"));
    fake_initiator(&mut host, &[(1, &one), (2, &two)]);
    host.set_up(disk(&host, 1, false)).await.unwrap();
    host.set_up(disk(&host, 2, false)).await.unwrap();
    assert_eq!(count_calls(&host, "--login"), 1);
    assert_eq!(fs::read_to_string(host.path_of("sys/class/scsi_host/host1/scan")).unwrap(), "0 0 2");
    // A restarted agent finds all state on disk.
    let initiator = host.volumes.iscsi.clone();
    host.volumes = HostPodVolumes::new(host.path_of("kubelet"));
    (host.volumes.iscsi.program, host.volumes.iscsi.disks) = (initiator.program, initiator.disks);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(count_calls(&host, "--logout"), 1);
    assert_eq!(host.mounts(), []);
    for disk in [&one, &two] {
        let delete = host.path_of("sys/block").join(disk.device.file_name().unwrap()).join("device/delete");
        assert_eq!(fs::read_to_string(delete).unwrap(), "1", "the disk is removed from the kernel");
    }
}

#[tokio::test]
async fn missing_disk_is_reported_and_cleaned_up() {
    let mut host = Host::new();
    fake_initiator(&mut host, &[]);
    let error = host.set_up(disk(&host, 7, false)).await.unwrap_err().to_string();
    assert!(error.contains("Timed out waiting for device") && error.contains("lun-7"), "{error}");
    assert_eq!(count_calls(&host, "--logout"), 1);
    assert!(!host.path_of("kubelet/plugins/kubernetes.io/iscsi/iface-default").exists());
    host.volumes.iscsi.program = host.path_of("nowhere/iscsiadm").into();
    let error = host.set_up(disk(&host, 7, false)).await.unwrap_err().to_string();
    assert!(error.contains("install the package open-iscsi"), "{error}");
}

#[tokio::test]
#[ignore = "needs root"]
async fn sends_credentials_to_the_target() {
    require_root();
    let mut host = Host::new();
    let device = LoopDisk::new(&host, "disk");
    fake_initiator(&mut host, &[(0, &device)]);
    let secret = |password: &str| {
        let session = [("username", "me"), ("password", password), ("username_in", "")];
        let session = session.map(|(key, value)| (format!("node.session.auth.{key}"), value.to_owned()));
        let discovery = ("discovery.sendtargets.auth.username".to_owned(), "finder".to_owned());
        VolumeSecret::Given(session.into_iter().chain([discovery]).collect())
    };
    let with = |secret: VolumeSecret, initiator: Option<OwnInitiator>| {
        let interface = initiator.as_ref().map_or("default", |_| "10.0.0.1:3260:data0").to_owned();
        let chap = Chap { discovery: true, session: true, secret };
        VolumePlan::Iscsi(Box::new(IscsiDisk { chap, initiator, interface, ..plain(&host, 0, false) }))
    };
    let missing = VolumeSecret::Missing("couldn't get secret own/chap error: gone".to_owned());
    let error = host.set_up(with(missing, None)).await.unwrap_err();
    assert_eq!(error.text(), "couldn't get secret own/chap error: gone");
    assert_eq!(error.step(), ports::host::pod_volumes::VolumeStep::WaitForAttach);
    assert_eq!(count_calls(&host, "--login"), 0, "no login without credentials");
    let error = host.set_up(with(secret("wrong"), None)).await.unwrap_err().text();
    assert!(error.contains("exit status 24") && !error.contains("wrong"), "{error}");
    fs::remove_file(host.path_of("refused")).unwrap();
    let own = OwnInitiator { name: "iqn.own".to_owned(), model: "default".to_owned() };
    host.set_up(with(secret("right"), Some(own))).await.unwrap();
    let text = calls(&host);
    let interface = "-I 10.0.0.1:3260:data0";
    let node = format!("-m node -p 10.0.0.1:3260 -T {TARGET} {interface} -o update -n node.session.auth");
    for line in [
        format!("-m iface {interface} -o new"),
        format!("-m iface {interface} -o update -n iface.initiatorname -v iqn.own"),
        format!("-m iface {interface} -o update -n iface.mtu -v 1500"),
        format!(
            "-m discoverydb -t sendtargets -p 10.0.0.1:3260 {interface} -o update -n \
             discovery.sendtargets.auth.username -v finder"
        ),
        format!("{node}.authmethod -v CHAP"),
        format!("{node}.password -v right"),
    ] {
        assert!(text.lines().any(|call| call == line), "{line} is not in\n{text}");
    }
    let mount_point = host.path_of("kubelet/plugins/kubernetes.io/iscsi/iface-10.0.0.1:3260:data0");
    assert!(mount_point.exists(), "in upstream's location");
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!((host.mounts(), mount_point.exists()), (vec![], false));
    assert!(calls(&host).ends_with(&format!("-m iface {interface} -o delete\n")), "the interface is deleted");
}

#[tokio::test]
#[ignore = "needs root"]
async fn uses_the_multipath_device_of_several_portals() {
    require_root();
    let mut host = Host::new();
    let (path, multipath) = (LoopDisk::new(&host, "path"), LoopDisk::new(&host, "combined"));
    fake_initiator(&mut host, &[(0, &path)]);
    let slave = host.path_of("sys/block/dm-7/slaves").join(path.device.file_name().unwrap());
    fs::create_dir_all(slave).unwrap();
    symlink(&multipath.device, host.path_of("dev/dm-7")).unwrap();
    let portals = ["10.0.0.1:3260", "10.0.0.2:3260", "10.0.0.9:3260"].map(str::to_owned).to_vec();
    let plan = VolumePlan::Iscsi(Box::new(IscsiDisk { portals, ..plain(&host, 0, false) }));
    host.set_up(plan).await.unwrap();
    assert_eq!(count_calls(&host, "--login"), 2);
    assert_eq!(
        count_calls(&host, "-p 10.0.0.9:3260 -I default --discover"),
        2,
        "the third portal is retried once"
    );
    let minor = multipath.device.to_str().unwrap().trim_start_matches("/dev/loop").to_owned();
    assert!(host.mounts().iter().all(|mount| mount.device == format!("7:{minor}")), "{:?}", host.mounts());
    host.volumes.tear_down(&host.uid).await.unwrap();
    let flushed = format!("-f -- {}\n", host.path_of("dev/dm-7").display());
    assert_eq!(fs::read_to_string(host.path_of("flushed")).unwrap(), flushed);
    assert_eq!((host.mounts(), count_calls(&host, "--logout")), (vec![], 3));
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounts_disk_with_the_requested_label() {
    require_root();
    let mut host = Host::new();
    let device = LoopDisk::new(&host, "disk");
    fake_initiator(&mut host, &[(0, &device)]);
    let (recorded, mount) = recording_mount(&host);
    host.volumes.iscsi.mount_program = mount;
    let label = VolumeLabel::OfMount("u:object_r:t:s0:c1,c2".to_owned());
    let volume = PlannedVolume { name: "v".to_owned(), plan: disk(&host, 0, true), fs_group: None, label };
    // A read-only disk is not formatted.
    let formatted = Command::new("mkfs.ext4").arg("-q").arg(&device.device).status().unwrap();
    assert!(formatted.success());
    host.volumes.set_up(&host.uid, &volume, &Progress::default()).await.unwrap();
    assert_eq!(fs::read_to_string(&recorded).unwrap(), "ro,context=\"u:object_r:t:s0:c1,c2\"\n");
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn raw_iscsi_device_is_linked_per_pod_and_logged_out_with_the_last() {
    require_root();
    let mut host = Host::new();
    let device = LoopDisk::new(&host, "disk");
    fake_initiator(&mut host, &[(0, &device)]);
    let link_of =
        |uid: &str| host.path_of("kubelet/pods").join(uid).join("volumeDevices/kubernetes.io~iscsi/pv");
    let (first, second) = (link_of("u1"), link_of("u2"));
    let plan = |path: &Path| {
        let disk = IscsiDisk { path: path.into(), use_as: DiskUse::Device, ..plain(&host, 0, false) };
        PlannedVolume {
            name: "v".to_owned(),
            plan: VolumePlan::Iscsi(Box::new(disk)),
            fs_group: None,
            label: model::VolumeLabel::None,
        }
    };
    let (one, two) = (plan(&first), plan(&second));
    let other = PodUid::from("u2");
    let progress = Progress::default();
    for _ in 0..2 {
        host.volumes.set_up(&host.uid, &one, &progress).await.unwrap();
    }
    host.volumes.set_up(&other, &two, &progress).await.unwrap();
    let map = host.path_of("kubelet/plugins/kubernetes.io/iscsi/volumeDevices/iface-default");
    let map = map.join(format!("10.0.0.1:3260-{TARGET}-lun-0"));
    for link in [&first, &second, &map.join("u1"), &map.join("u2")] {
        assert_eq!(fs::read_link(link).unwrap(), device.device);
    }
    // After a reboot the device name may belong to another disk.
    let stale = host.path_of("stale");
    fs::write(&stale, "").unwrap();
    fs::remove_file(&first).unwrap();
    symlink(&stale, &first).unwrap();
    host.volumes.set_up(&host.uid, &one, &progress).await.unwrap();
    assert_eq!(fs::read_link(&first).unwrap(), device.device);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(!first.exists() && !map.join("u1").exists() && second.exists());
    assert_eq!(count_calls(&host, "--logout"), 0);
    host.volumes.tear_down(&other).await.unwrap();
    assert_eq!((count_calls(&host, "--login"), count_calls(&host, "--logout")), (1, 1));
    assert!(!host.path_of("kubelet/plugins/kubernetes.io/iscsi/volumeDevices").exists(), "nothing is left");
}
