//! Table tests of the whole translation.

use std::path::Path;

use cri::v1::{
    Capability as Capabilities, Int64Value, LinuxContainerConfig, LinuxContainerResources, Mount,
    MountPropagation, NamespaceMode, UserNamespace,
};

use super::*;
use crate::launcher::capabilities::{mask, set_of_mask};
use crate::launcher::{CgroupNamespace, MountAccess, MountSource, NewPrivileges, PidNamespace, Propagation};

/// Everything that a test changes.
struct Case {
    config: ContainerConfig,
    security: LinuxContainerSecurityContext,
    image: ImageConfig,
    sandbox: NamespaceOption,
    privileged_sandbox: bool,
    target_pid: Option<u32>,
    cgroup_v2: bool,
}

fn case() -> Case {
    let sandbox = NamespaceOption { pid: NamespaceMode::Container.into(), ..NamespaceOption::default() };
    Case {
        config: ContainerConfig { command: vec!["sh".into()], ..ContainerConfig::default() },
        security: LinuxContainerSecurityContext {
            namespace_options: Some(sandbox.clone()),
            ..LinuxContainerSecurityContext::default()
        },
        image: ImageConfig::default(),
        sandbox,
        privileged_sandbox: false,
        target_pid: None,
        cgroup_v2: false,
    }
}

impl Case {
    fn translate(&self) -> Result<Translation, ServiceError> {
        let linux = self.config.linux.clone().unwrap_or_default();
        let linux = LinuxContainerConfig { security_context: Some(self.security.clone()), ..linux };
        let config = ContainerConfig { linux: Some(linux), ..self.config.clone() };
        let hierarchy =
            CgroupHierarchy { name: "memory".into(), directory: "/sys/fs/cgroup/memory/c".into() };
        translate(&TranslationInput {
            id: "c",
            config: &config,
            image: &self.image,
            sandbox: SandboxView {
                files: SandboxFiles::in_folder("/root/s".as_ref()),
                shared_memory: "/state/s/shm".into(),
                namespaces: NamespaceFiles::in_folder("/state/s".as_ref()),
                options: self.sandbox.clone(),
                privileged: self.privileged_sandbox,
                hostname: "web".into(),
                user: None,
            },
            root: "/root/c".into(),
            user_files: UserFiles::default(),
            held: &set_of_mask(0x1ff_ffff_ffff),
            cgroups: vec!["/sys/fs/cgroup/memory/c".into()],
            cgroup_view: match self.cgroup_v2 {
                true => CgroupView::V2("/sys/fs/cgroup/c".into()),
                false => CgroupView::V1(vec![hierarchy]),
            },
            seccomp_profile: None,
            apparmor: AppArmorHost::default(),
            target_pid: self.target_pid,
            image_mounts: [(0, PathBuf::from("/views/a"))].into(),
            declared_volumes: vec![("/data".into(), "/root/c/volumes/0".into())],
            devices: Vec::new(),
            edits: DeviceEdits::default(),
        })
    }

    #[track_caller]
    fn spec(&self) -> ContainerSpec {
        self.translate().map(|translation| translation.spec).unwrap()
    }

    #[track_caller]
    fn refuses(&self, field: &str) {
        let error = self.translate().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(field), "{error:?} does not name {field}");
    }
}

fn destinations(spec: &ContainerSpec) -> Vec<String> {
    spec.mounts.iter().map(|mount| mount.destination.display().to_string()).collect()
}

#[test]
fn default_mounts_come_first_and_deeper_destinations_later() {
    let mut case = case();
    case.config.mounts = vec![
        Mount { container_path: "/a/b/c".into(), host_path: "/x".into(), ..Mount::default() },
        Mount { container_path: "/a".into(), host_path: "/y".into(), ..Mount::default() },
    ];
    assert_eq!(
        destinations(&case.spec()),
        [
            "/proc",
            "/dev",
            "/dev/pts",
            "/dev/mqueue",
            "/sys",
            "/sys/fs/cgroup",
            "/a",
            "/data",
            "/etc/hostname",
            "/etc/hosts",
            "/etc/resolv.conf",
            "/dev/shm",
            "/a/b/c",
        ]
    );
}

#[test]
fn requested_destinations_replace_defaults_and_files_of_the_sandbox() {
    let mut case = case();
    let mount =
        |path: &str| Mount { container_path: path.into(), host_path: "/x".into(), ..Mount::default() };
    case.config.mounts = vec![mount("/dev/"), mount("/etc//hosts"), mount("/x/../data"), mount("/sys")];
    let spec = case.spec();
    assert_eq!(spec.devices, DeviceNodes::None);
    assert_eq!(
        destinations(&spec),
        [
            "/proc",
            "/sys/fs/cgroup",
            "/dev",
            "/data",
            "/sys",
            "/etc/hosts",
            "/etc/hostname",
            "/etc/resolv.conf",
            "/dev/shm",
        ]
    );
}

#[test]
fn access_and_propagation_of_mounts_follow_the_request() {
    let mount = |readonly, recursive_read_only, propagation: MountPropagation| Mount {
        container_path: "/m".into(),
        host_path: "/x".into(),
        readonly,
        recursive_read_only,
        propagation: propagation.into(),
        ..Mount::default()
    };
    let private = MountPropagation::PropagationPrivate;
    for (mount, expected) in [
        (mount(false, false, private), (MountAccess::ReadWrite, Propagation::Private)),
        (mount(true, false, private), (MountAccess::ReadOnly, Propagation::Private)),
        (mount(true, true, private), (MountAccess::RecursivelyReadOnly, Propagation::Private)),
        (
            mount(false, false, MountPropagation::PropagationHostToContainer),
            (MountAccess::ReadWrite, Propagation::HostToContainer),
        ),
        (
            mount(true, false, MountPropagation::PropagationBidirectional),
            (MountAccess::ReadOnly, Propagation::Bidirectional),
        ),
    ] {
        let mut case = case();
        case.config.mounts = vec![mount];
        let spec = case.spec();
        let made = spec.mounts.iter().find(|mount| mount.destination == Path::new("/m")).unwrap();
        let source = MountSource::Bind { path: "/x".into(), propagation: expected.1 };
        assert_eq!((made.access, &made.source), (expected.0, &source));
    }
    for mount in [
        mount(false, true, private),
        mount(true, true, MountPropagation::PropagationHostToContainer),
        Mount { propagation: 9, ..mount(false, false, private) },
        Mount { host_path: "relative".into(), ..mount(false, false, private) },
        Mount { container_path: String::new(), ..mount(false, false, private) },
    ] {
        let mut case = case();
        case.config.mounts = vec![mount];
        case.refuses("mounts");
    }
}

#[test]
fn image_volume_is_mounted_read_only() {
    let mut case = case();
    let volume = Mount {
        container_path: "/v".into(),
        image: Some(cri::v1::ImageSpec { image: "i".into(), ..cri::v1::ImageSpec::default() }),
        readonly: true,
        ..Mount::default()
    };
    case.config.mounts = vec![volume.clone()];
    let spec = case.spec();
    let made = spec.mounts.iter().find(|mount| mount.destination == Path::new("/v")).unwrap();
    assert_eq!(made.access, MountAccess::RecursivelyReadOnly);
    case.config.mounts = vec![Mount { readonly: false, ..volume }];
    case.refuses("mounts");
}

#[test]
fn read_only_root_makes_the_sandbox_files_read_only() {
    let mut case = case();
    case.security.readonly_rootfs = true;
    let spec = case.spec();
    assert_eq!(spec.root_access, Access::ReadOnly);
    let access =
        |path: &str| spec.mounts.iter().find(|mount| mount.destination == Path::new(path)).unwrap().access;
    assert_eq!(access("/etc/hosts"), MountAccess::ReadOnly);
    assert_eq!(access("/dev/shm"), MountAccess::ReadWrite);
}

#[test]
fn cgroup_version_2_shows_the_own_cgroup_only() {
    let mut case = case();
    case.cgroup_v2 = true;
    let spec = case.spec();
    let made = spec.mounts.iter().find(|mount| mount.destination == Path::new("/sys/fs/cgroup")).unwrap();
    let source = MountSource::Bind { path: "/sys/fs/cgroup/c".into(), propagation: Propagation::Private };
    assert_eq!((&made.source, made.access), (&source, MountAccess::ReadOnly));
    assert_eq!(spec.namespaces.cgroup, CgroupNamespace::New);
    case.cgroup_v2 = false;
    assert_eq!(case.spec().namespaces.cgroup, CgroupNamespace::Host);
}

#[test]
fn privileged_container_needs_a_privileged_sandbox_and_has_no_limits() {
    let mut case = case();
    case.security.privileged = true;
    case.security.masked_paths = vec!["/proc/kcore".into()];
    case.refuses("privileged");
    case.privileged_sandbox = true;
    let translation = case.translate().ok().unwrap();
    assert!(translation.spec.masked_paths.is_empty());
    assert_eq!(mask(&translation.spec.process.capabilities), 0x1ff_ffff_ffff);
    assert_eq!(translation.device_rules.len(), 1);
    let sys = translation.spec.mounts.iter().find(|mount| mount.destination == Path::new("/sys")).unwrap();
    assert_eq!(sys.access, MountAccess::ReadWrite);
}

#[test]
fn capabilities_and_privileges_follow_the_request() {
    let mut case = case();
    let spec = case.spec();
    assert_eq!(mask(&spec.process.capabilities), 0xa804_25fb);
    assert_eq!(spec.process.new_privileges, NewPrivileges::Allowed);
    assert_eq!(spec.process.seccomp, None);
    case.security.no_new_privs = true;
    case.security.capabilities =
        Some(Capabilities { drop_capabilities: vec!["ALL".into()], ..Capabilities::default() });
    case.security.seccomp_profile_path = "runtime/default".into();
    let spec = case.spec();
    assert_eq!(mask(&spec.process.capabilities), 0);
    assert_eq!(spec.process.new_privileges, NewPrivileges::Forbidden);
    assert!(spec.process.seccomp.is_some());
}

#[test]
fn masked_and_read_only_paths_are_those_of_the_request() {
    let mut case = case();
    assert!(case.spec().masked_paths.is_empty());
    case.security.masked_paths = vec!["/proc/kcore".into()];
    case.security.readonly_paths = vec!["/proc/sys".into()];
    let spec = case.spec();
    assert_eq!(spec.masked_paths, [PathBuf::from("/proc/kcore")]);
    assert_eq!(spec.readonly_paths, [PathBuf::from("/proc/sys")]);
}

#[test]
fn namespaces_come_from_the_sandbox() {
    let mut case = case();
    let namespaces = case.spec().namespaces;
    assert_eq!(namespaces.network, Some("/state/s/ns/net".into()));
    assert_eq!(namespaces.ipc, Some("/state/s/ns/ipc".into()));
    assert_eq!(namespaces.uts, Some("/state/s/ns/uts".into()));
    assert_eq!(namespaces.pid, PidNamespace::New);
    case.sandbox.network = NamespaceMode::Node.into();
    case.sandbox.ipc = NamespaceMode::Node.into();
    let namespaces = case.spec().namespaces;
    assert_eq!((namespaces.network, namespaces.ipc, namespaces.uts), (None, None, None));
}

#[test]
fn pid_namespace_has_all_modes() {
    let pid = |mode: NamespaceMode, target: &str, sandbox: NamespaceMode, target_pid| {
        let mut case = case();
        case.sandbox.pid = sandbox.into();
        case.security.namespace_options = Some(NamespaceOption {
            pid: mode.into(),
            target_id: target.into(),
            ..NamespaceOption::default()
        });
        case.target_pid = target_pid;
        case.translate().ok().map(|translation| translation.spec.namespaces.pid)
    };
    use NamespaceMode::{Container, Node, Pod, Target};
    assert_eq!(pid(Container, "", Container, None), Some(PidNamespace::New));
    assert_eq!(pid(Pod, "", Pod, None), Some(PidNamespace::Join("/state/s/ns/pid".into())));
    assert_eq!(pid(Pod, "", Container, None), None);
    assert_eq!(pid(Node, "", Node, None), Some(PidNamespace::Host));
    assert_eq!(pid(Target, "t", Container, Some(7)), Some(PidNamespace::Join("/proc/7/ns/pid".into())));
    assert_eq!(pid(Target, "t", Container, None), None);
    assert_eq!(pid(Target, "", Container, Some(7)), None);
}

#[test]
fn settings_that_cannot_be_enforced_are_refused_by_name() {
    type Change = fn(&mut Case);
    let refused: [(&str, Change); 9] = [
        ("selinux_options", |case| case.security.selinux_options = Some(Default::default())),
        ("add_ambient_capabilities", |case| {
            let add_ambient_capabilities = vec!["CHOWN".into()];
            case.security.capabilities =
                Some(Capabilities { add_ambient_capabilities, ..Capabilities::default() });
        }),
        ("userns_options", |case| {
            let user = UserNamespace { mode: NamespaceMode::Pod.into(), ..UserNamespace::default() };
            let options = NamespaceOption {
                userns_options: Some(user),
                ..case.security.namespace_options.clone().unwrap()
            };
            case.security.namespace_options = Some(options);
        }),
        ("namespace_options.network", |case| {
            let options = NamespaceOption {
                network: NamespaceMode::Node.into(),
                ..case.security.namespace_options.clone().unwrap()
            };
            case.security.namespace_options = Some(options);
        }),
        ("run_as_group", |case| case.security.run_as_group = Some(Int64Value { value: 5 })),
        ("apparmor", |case| case.security.apparmor_profile = "localhost/x".into()),
        ("seccomp", |case| case.security.seccomp_profile_path = "localhost/relative".into()),
        ("command", |case| case.config.command.clear()),
        ("oom_score_adj", |case| {
            let resources =
                LinuxContainerResources { oom_score_adj: 1001, ..LinuxContainerResources::default() };
            case.config.linux =
                Some(LinuxContainerConfig { resources: Some(resources), ..LinuxContainerConfig::default() });
        }),
    ];
    for (field, change) in refused {
        let mut case = case();
        change(&mut case);
        case.refuses(field);
    }
}

#[test]
fn device_rules_begin_with_requested_devices() {
    let case = case();
    let rules = case.translate().ok().unwrap().device_rules;
    assert_eq!(rules, default_device_rules());
}
