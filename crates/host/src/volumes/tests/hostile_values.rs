//! Values from pods and from the API server that a program could parse as its options.

use model::{Chap, CsiPod, DiskUse, FlexVolume, IscsiDisk, VolumeSecret};

use super::super::flex::FlexDrivers;
use super::*;

/// None of them may become an option or a command of a program, a second argument, or a path outside.
const HOSTILE: [&str; 10] = [
    "-obind",
    "--bind",
    "--help",
    "-a\0b",
    "a\n-b",
    "\u{1b}[2J",
    "../../bin/sh",
    "; touch x",
    "$(touch x)",
    "a b",
];

/// A program that appends its arguments, each ended by NUL, and then fails.
fn recorder(host: &Host, name: &str) -> OsString {
    let text = format!(
        "#!/bin/sh\nfor one; do printf '%s\\0' \"$one\" >> {}; done\nprintf '\\0' >> {0}\nexit 1\n",
        host.path_of("calls").display()
    );
    program(&host.path_of(name), &text).into()
}

/// A FlexVolume driver that mounts nothing itself and returns the device that it got.
fn driver(host: &Host) -> PathBuf {
    let folder = host.path_of("exec/acme~disk");
    fs::create_dir_all(&folder).unwrap();
    let _ = recorder(host, "recorder");
    let text = format!(
        "#!/bin/sh\n{} \"$@\"\ncase \"$1\" in\ninit) echo '{{\"status\": \"Success\"}}' ;;\n\
         *) echo '{{\"status\": \"Not supported\"}}'; exit 1 ;;\nesac\n",
        host.path_of("recorder").display()
    );
    program(&folder.join("disk"), &text);
    host.path_of("exec")
}

/// The arguments of each call.
fn calls(host: &Host) -> Vec<Vec<String>> {
    let text = fs::read_to_string(host.path_of("calls")).unwrap_or_default();
    let calls = text.split("\0\0").filter(|call| !call.is_empty());
    calls.map(|call| call.split('\0').map(str::to_owned).collect()).collect()
}

/// Whether a value is an operand after `--` or the value of an option, whenever it is an argument.
fn is_harmless(call: &[String], value: &str) -> bool {
    let end = call.iter().position(|argument| argument == "--").unwrap_or(call.len());
    call.iter().enumerate().filter(|(_, argument)| argument.starts_with(value)).all(|(at, argument)| {
        let follows_option = at > 0 && call.get(at - 1).is_some_and(|before| before.starts_with('-'));
        at > end || follows_option || !argument.starts_with('-')
    })
}

fn iscsi(host: &Host, change: impl FnOnce(&mut IscsiDisk)) -> VolumePlan {
    let mut disk = IscsiDisk {
        path: host.pod("volumes/kubernetes.io~iscsi/v"),
        name: "v".into(),
        portals: vec!["10.0.0.1:3260".into()],
        target: "iqn.2026-01.example:x".into(),
        lun: 0,
        interface: "default".into(),
        initiator: None,
        chap: Chap { discovery: false, session: false, secret: VolumeSecret::NotNeeded },
        attachment: String::new(),
        use_as: DiskUse::Files { fs_type: "ext4".into(), options: vec![] },
        read_only: false,
    };
    change(&mut disk);
    VolumePlan::Iscsi(Box::new(disk))
}

fn flex(host: &Host, change: impl FnOnce(&mut FlexVolume)) -> VolumePlan {
    let pod =
        CsiPod { name: "p".into(), namespace: "n".into(), uid: "u1".into(), service_account: "s".into() };
    let mut volume = FlexVolume {
        path: host.pod("volumes/acme~disk/v"),
        name: "v".into(),
        driver: "acme/disk".into(),
        fs_type: "ext4".into(),
        read_only: false,
        options: [].into(),
        secret: VolumeSecret::NotNeeded,
        pod,
        device: None,
        size: None,
    };
    change(&mut volume);
    VolumePlan::Flex(Box::new(volume))
}

fn plans(host: &Host, value: &str) -> Vec<VolumePlan> {
    let path = || host.pod("volumes/kubernetes.io~nfs/v");
    let text = || value.to_owned();
    vec![
        VolumePlan::Nfs { path: path(), source: text(), read_only: false, options: vec![] },
        VolumePlan::Nfs { path: path(), source: "nas:/x".into(), read_only: false, options: vec![text()] },
        iscsi(host, |disk| disk.portals = vec![text()]),
        iscsi(host, |disk| disk.target = text()),
        iscsi(host, |disk| disk.interface = text()),
        iscsi(host, |disk| {
            disk.initiator = Some(model::OwnInitiator { name: text(), model: "default".into() });
        }),
        flex(host, |volume| volume.driver = text()),
        flex(host, |volume| volume.name = text()),
        flex(host, |volume| volume.fs_type = text()),
        flex(host, |volume| volume.options = [(text(), text())].into()),
        flex(host, |volume| volume.device = Some(text())),
    ]
}

#[tokio::test]
async fn values_from_outside_never_become_options_of_programs() {
    for value in HOSTILE {
        let mut host = Host::new();
        host.volumes.mount_program = recorder(&host, "mount");
        host.volumes.iscsi.program = recorder(&host, "iscsiadm");
        host.volumes.iscsi.mount_program = recorder(&host, "mount");
        host.volumes.iscsi.attach_timeout = std::time::Duration::ZERO;
        host.volumes.flex = FlexDrivers::new(driver(&host), None);
        for plan in plans(&host, value) {
            let shown = format!("{value:?}: {plan:?}");
            assert!(host.set_up(plan).await.is_err(), "{shown}");
            for call in calls(&host) {
                assert!(is_harmless(&call, value), "{shown}: {call:?}");
            }
        }
        assert!(!Path::new("x").exists(), "a shell ran {value:?}");
    }
}
