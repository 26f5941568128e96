//! A pod for tests: a keeper, cgroups and roots with busybox. Everything is removed at the end.

use std::collections::BTreeSet;
use std::fs;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use runtime::cgroups::{CgroupLayout, ContainerCgroup};
use runtime::containers::default_mounts;
use runtime::keeper::protocol::{
    AttachedStreams, ExitRecord, FrameBuffer, Message, Request, Response, Stdin, VERSION, encode,
};
use runtime::keeper::{SealedProgram, start_keeper};
use runtime::launcher::capabilities::{requested_set, set_of_mask};
use runtime::launcher::*;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

const TIMEOUT: Duration = Duration::from_secs(20);
const APPLETS: &[&str] = &[
    "sh", "cat", "ls", "echo", "id", "sleep", "mkdir", "mount", "touch", "true", "grep", "kill", "ps", "dd",
    "chmod", "stat", "readlink", "ln", "mv", "rm", "hostname", "mknod", "wc", "head", "printf", "env", "pwd",
    "test", "stty", "tr", "fold", "ifconfig",
];
static NEXT: AtomicU32 = AtomicU32::new(0);
/// All keepers share the pages of one program.
static PROGRAM: OnceLock<SealedProgram> = OnceLock::new();

pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
}

pub(crate) struct Pod {
    pub(crate) folder: tempfile::TempDir,
    keeper: Child,
    connection: KeeperConnection,
    cgroups: Vec<ContainerCgroup>,
    containers: u32,
}

impl Pod {
    pub(crate) fn new() -> Self {
        require_root();
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let copy = || SealedProgram::copy_of(Path::new(env!("CARGO_BIN_EXE_podward-keeper"))).unwrap();
        let (keeper, socket) = start_keeper(PROGRAM.get_or_init(copy), folder.path()).unwrap();
        let connection = KeeperConnection::open(&socket);
        Self { folder, keeper, connection, cgroups: Vec::new(), containers: 0 }
    }

    pub(crate) fn keeper_pid(&self) -> u32 {
        self.keeper.id()
    }

    /// A root with busybox, which the test may change before the container is created.
    pub(crate) fn root(&mut self) -> PathBuf {
        self.containers += 1;
        let root = self.folder.path().join(format!("root-{}", self.containers));
        for folder in ["bin", "etc", "tmp"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in APPLETS {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        root
    }

    /// A container with defaults, in separate cgroups.
    pub(crate) fn spec(&mut self, script: &str) -> ContainerSpec {
        let root = self.root();
        let id = format!(
            "{:0>64x}",
            u64::from(std::process::id()) << 20 | u64::from(NEXT.fetch_add(1, Ordering::Relaxed))
        );
        let layout = CgroupLayout::parse(&fs::read_to_string("/proc/self/mountinfo").unwrap()).unwrap();
        let cgroup = ContainerCgroup::make(&layout, &Path::new("podward-test").join(&id)).unwrap();
        let cgroups = cgroup.directories();
        let hierarchy = |directory: &PathBuf| {
            let mount = directory.ancestors().nth(2).unwrap();
            let name = mount.file_name().unwrap().to_str().unwrap().to_owned();
            CgroupHierarchy { name, directory: directory.clone() }
        };
        let hierarchies = cgroups.iter().map(hierarchy).collect();
        self.cgroups.push(cgroup);
        ContainerSpec {
            id,
            root,
            root_access: Access::ReadWrite,
            root_owners: FileOwners::Unchanged,
            namespaces: Namespaces {
                network: None,
                ipc: None,
                uts: None,
                pid: PidNamespace::New,
                cgroup: CgroupNamespace::Host,
                user: None,
            },
            mounts: default_mounts(hierarchies, MountAccess::ReadOnly),
            devices: DeviceNodes::StandardAnd(Vec::new()),
            masked_paths: ["/proc/kcore", "/proc/keys", "/proc/scsi", "/sys/firmware"]
                .map(PathBuf::from)
                .into(),
            readonly_paths: ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
                .map(PathBuf::from)
                .into(),
            process: process(script),
            cgroups,
        }
    }

    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        self.folder.path().join("logs").join(id)
    }

    pub(crate) fn create(&mut self, spec: &ContainerSpec) -> Response {
        self.create_with(spec, Stdin::Closed)
    }

    fn create_with(&mut self, spec: &ContainerSpec, stdin: Stdin) -> Response {
        let memory = spec.cgroups.iter().find(|folder| folder.join("memory.oom_control").exists());
        let request = Request::Create {
            container: Box::new(spec.clone()),
            stdin,
            log: Some(self.log_path(&spec.id)),
            oom_counter: memory.map(|folder| folder.join("memory.oom_control")),
        };
        self.ask(&request)
    }

    pub(crate) fn start(&mut self, id: &str) -> Response {
        self.ask(&Request::Start { container: id.to_owned() })
    }

    pub(crate) fn run(&mut self, spec: &ContainerSpec) -> u32 {
        self.run_with(spec, Stdin::Closed)
    }

    pub(crate) fn run_with(&mut self, spec: &ContainerSpec, stdin: Stdin) -> u32 {
        assert_eq!(self.create_with(spec, stdin), Response::Done);
        match self.start(&spec.id) {
            Response::Started { pid } => pid,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a container to its end; returns exit code and standard output.
    pub(crate) fn output(&mut self, spec: &ContainerSpec) -> (i32, String) {
        self.run(spec);
        let exit = self.exit(&spec.id);
        (exit.code, self.log(&spec.id))
    }

    /// Content of the log without times, one line per record with an `E` before those of standard error.
    pub(crate) fn log(&self, id: &str) -> String {
        let text = fs::read_to_string(self.log_path(id)).unwrap_or_default();
        let line = |line: &str| {
            let mut fields = line.splitn(4, ' ').skip(1);
            let (stream, _tag, content) =
                (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
            format!("{}{content}\n", if stream == "stderr" { "E " } else { "" })
        };
        text.lines().map(line).collect()
    }

    /// Executes a script in a container; returns exit record and standard output.
    pub(crate) fn exec(
        &mut self,
        container: &str,
        process: ProcessSpec,
    ) -> Result<(ExitRecord, String), Response> {
        let (exec, mut output) = self.start_exec(container, process)?;
        let exit = self.exec_exit(&exec);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        Ok((exit, text))
    }

    pub(crate) fn start_exec(
        &mut self,
        container: &str,
        process: ProcessSpec,
    ) -> Result<(String, fs::File), Response> {
        let exec = format!("{:0>64x}", 0xe << 40 | NEXT.fetch_add(1, Ordering::Relaxed) as u64);
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let null: OwnedFd = fs::File::open("/dev/null").unwrap().into();
        let request =
            Request::Exec { container: container.to_owned(), exec: exec.clone(), process: Box::new(process) };
        let copy = writer.try_clone().unwrap();
        match self.ask_with(&request, &[null, writer, copy]) {
            Response::Started { .. } => Ok((exec, reader.into())),
            other => Err(other),
        }
    }

    /// Executes a process with a terminal; returns the exec id and the terminal's master side.
    pub(crate) fn start_exec_with_terminal(
        &mut self,
        container: &str,
        process: ProcessSpec,
    ) -> Result<(String, fs::File), Response> {
        let exec = format!("{:0>64x}", 0xe << 40 | NEXT.fetch_add(1, Ordering::Relaxed) as u64);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let request =
            Request::Exec { container: container.to_owned(), exec: exec.clone(), process: Box::new(process) };
        match self.ask_with(&request, &[theirs.into()]) {
            Response::Started { .. } => {}
            other => return Err(other),
        }
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut byte)];
        recvmsg(&ours, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
        let master = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let master = master.unwrap();
        // The test waits for output.
        rustix::fs::fcntl_setfl(&master, rustix::fs::OFlags::empty()).unwrap();
        Ok((exec, master.into()))
    }

    /// Attaches to a container; returns this side of standard input, output and error.
    pub(crate) fn attach(
        &mut self,
        container: &str,
        streams: AttachedStreams,
    ) -> Result<[Option<fs::File>; 3], Response> {
        let mut ours = [None, None, None];
        let mut theirs = Vec::new();
        let chosen = [streams.stdin, streams.stdout, streams.stderr];
        for (index, slot) in ours.iter_mut().enumerate().filter(|(index, _)| chosen[*index]) {
            let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
            let (own, other) = if index == 0 { (writer, reader) } else { (reader, writer) };
            *slot = Some(own.into());
            theirs.push(other);
        }
        match self.ask_with(&Request::Attach { container: container.to_owned(), streams }, &theirs) {
            Response::Done => Ok(ours),
            other => Err(other),
        }
    }

    pub(crate) fn kill(&mut self, id: &str) {
        let request = Request::Signal { container: id.to_owned(), signal: libc::SIGKILL };
        assert_eq!(self.ask(&request), Response::Done);
    }

    /// Sends a request with descriptors.
    pub(crate) fn ask_with(&mut self, request: &Request, descriptors: &[OwnedFd]) -> Response {
        self.connection.ask_with(request, descriptors)
    }

    /// Closes the connection and opens another one, as a restarted agent does.
    pub(crate) fn reconnect(&mut self) {
        self.connection = self.connect();
    }

    /// A further connection to the keeper.
    pub(crate) fn connect(&self) -> KeeperConnection {
        KeeperConnection::open(&self.folder.path().join("keeper.sock"))
    }

    pub(crate) fn exit(&mut self, id: &str) -> ExitRecord {
        self.connection.exit(id)
    }

    pub(crate) fn exec_exit(&mut self, id: &str) -> ExitRecord {
        self.connection.exec_exit(id)
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Response {
        self.connection.ask_with(request, &[])
    }
}

/// A connection to a keeper.
pub(crate) struct KeeperConnection {
    socket: UnixStream,
    received: FrameBuffer,
    reports: Vec<Message>,
}

impl KeeperConnection {
    fn open(path: &Path) -> Self {
        let socket = UnixStream::connect(path).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut connection = Self { socket, received: FrameBuffer::default(), reports: Vec::new() };
        let hello = connection.ask_with(&Request::Hello { version: VERSION }, &[]);
        assert_eq!(hello, Response::Hello { version: VERSION });
        connection
    }

    /// Sends a request with descriptors.
    pub(crate) fn ask_with(&mut self, request: &Request, descriptors: &[OwnedFd]) -> Response {
        let bytes = encode(request).unwrap();
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        let sent =
            sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::empty()).unwrap();
        assert_eq!(sent, bytes.len());
        self.response()
    }

    pub(crate) fn exit(&mut self, id: &str) -> ExitRecord {
        self.report(|message| match message {
            Message::ContainerExited { container, exit } if container == id => Some(exit.clone()),
            _ => None,
        })
    }

    pub(crate) fn exec_exit(&mut self, id: &str) -> ExitRecord {
        self.report(|message| match message {
            Message::ExecExited { exec, exit, .. } if exec == id => Some(exit.clone()),
            _ => None,
        })
    }

    fn response(&mut self) -> Response {
        loop {
            match self.next() {
                Message::Response(response) => return response,
                report => self.reports.push(report),
            }
        }
    }

    fn report<T>(&mut self, find: impl Fn(&Message) -> Option<T>) -> T {
        loop {
            if let Some(position) = self.reports.iter().position(|report| find(report).is_some()) {
                return find(&self.reports.remove(position)).unwrap();
            }
            let message = self.next();
            self.reports.push(message);
        }
    }

    fn next(&mut self) -> Message {
        loop {
            if let Some(message) = self.received.next_message().unwrap() {
                return message;
            }
            let mut bytes = [0; 4096];
            let read = self.socket.read(&mut bytes).unwrap();
            assert_ne!(read, 0, "the keeper closed the connection");
            self.received.extend(&bytes[..read]);
        }
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        // SIGKILL through the cgroups ends containers whose keeper has died.
        for folder in self.cgroups.iter().flat_map(ContainerCgroup::directories) {
            for pid in fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines() {
                let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
        for cgroup in &self.cgroups {
            let _ = cgroup.remove();
        }
    }
}

pub(crate) fn process(script: &str) -> ProcessSpec {
    ProcessSpec {
        arguments: ["sh", "-c", script].map(str::to_owned).into(),
        environment: vec!["PATH=/bin".to_owned(), "HOME=/".to_owned()],
        directory: PathBuf::from("/"),
        user: User { uid: 0, gid: 0, groups: vec![0] },
        capabilities: requested_set(&[], &[], &set_of_mask(u64::MAX)),
        new_privileges: NewPrivileges::Allowed,
        seccomp: None,
        security_label: SecurityLabel::None,
        oom_score_adj: 0,
        resource_limits: Vec::new(),
        terminal: Terminal::None,
    }
}

/// Everything that this process could pass on.
pub(crate) fn held_capabilities() -> BTreeSet<capabilities::Capability> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapPrm:\t")).unwrap();
    set_of_mask(u64::from_str_radix(mask, 16).unwrap())
}

pub(crate) fn default_filter() -> seccomp::Filter {
    let bounding: BTreeSet<_> = requested_set(&[], &[], &set_of_mask(u64::MAX));
    seccomp::Filter::compile(&seccomp::default_profile(&bounding).unwrap()).unwrap()
}
