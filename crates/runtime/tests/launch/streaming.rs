//! The streaming server in front of real containers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use runtime::keeper::protocol::{Request, Response, Stdin};
use runtime::launcher::{ContainerSpec, Terminal, TerminalSize};
use runtime::streaming::{
    AttachRequest, AttachedProcess, ConsoleSocket, ExecProcess, ExecRequest, PortForwardRequest,
    ProcessStreams, StreamBackend, StreamError, StreamOptions, StreamTimeouts, StreamingServer, attach_pipes,
    connect_in_namespace, exec_pipes,
};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::clients::{SpdyClient, WebSocketClient, within};
use crate::pod::{KeeperConnection, Pod, process};
use crate::user_namespaces::{make_namespaces, spec_in};

const TERMINAL: StreamOptions = StreamOptions { stdin: true, stdout: true, stderr: false, tty: true };
const PIPES: StreamOptions = StreamOptions { stdin: true, stdout: true, stderr: true, tty: false };
const SUCCESS: &str = r#"{"status":"Success"}"#;
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Containers of a pod, each request over its own connection to the keeper.
struct PodBackend {
    pod: Mutex<Pod>,
    network: Option<PathBuf>,
}

impl PodBackend {
    fn connect(&self) -> KeeperConnection {
        self.pod.lock().connect()
    }

    fn ask(&self, request: &Request, descriptors: &[OwnedFd]) -> Result<KeeperConnection, StreamError> {
        let mut connection = self.connect();
        match connection.ask_with(request, descriptors) {
            Response::Failed { message, .. } => Err(StreamError::Failed(message)),
            _ => Ok(connection),
        }
    }
}

/// Waits for a message of the keeper without blocking the async runtime.
async fn wait<T: Send + 'static>(
    mut connection: KeeperConnection,
    message: impl FnOnce(&mut KeeperConnection) -> T + Send + 'static,
) -> T {
    tokio::task::spawn_blocking(move || message(&mut connection)).await.unwrap()
}

#[async_trait]
impl StreamBackend for PodBackend {
    async fn exec(
        &self,
        container: &str,
        command: &[String],
        options: StreamOptions,
    ) -> Result<ExecProcess, StreamError> {
        let id = format!("{:0>64x}", 0xf << 40 | u64::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        let mut process = process("");
        process.arguments = command.to_vec();
        if options.tty {
            process.terminal = Terminal::New;
        }
        let request =
            Request::Exec { container: container.to_owned(), exec: id.clone(), process: Box::new(process) };
        let (streams, connection) = if options.tty {
            let (console, descriptor) = ConsoleSocket::pair().unwrap();
            let connection = self.ask(&request, &[descriptor])?;
            (ProcessStreams::Terminal(console.receive().await.unwrap()), connection)
        } else {
            let (streams, descriptors) = exec_pipes(options).unwrap();
            (streams, self.ask(&request, &descriptors)?)
        };
        let mut killer = self.connect();
        let kill = Request::KillExec { container: container.to_owned(), exec: id.clone() };
        Ok(ExecProcess {
            streams,
            exit: Box::pin(
                async move { Ok(wait(connection, move |keeper| keeper.exec_exit(&id).code).await) },
            ),
            kill: Box::pin(async move { drop(killer.ask_with(&kill, &[])) }),
        })
    }

    async fn attach(&self, container: &str, options: StreamOptions) -> Result<AttachedProcess, StreamError> {
        let (streams, chosen, descriptors) = attach_pipes(options).unwrap();
        let request = Request::Attach { container: container.to_owned(), streams: chosen };
        let connection = self.ask(&request, &descriptors)?;
        let id = container.to_owned();
        let ended = Box::pin(async move { drop(wait(connection, move |keeper| keeper.exit(&id)).await) });
        Ok(AttachedProcess { streams, ended })
    }

    async fn resize(&self, container: &str, size: TerminalSize) -> Result<(), StreamError> {
        self.ask(&Request::Resize { container: container.to_owned(), size }, &[]).map(drop)
    }

    async fn port_forward(&self, _: &str, port: u16) -> Result<TcpStream, StreamError> {
        let connected = connect_in_namespace(self.network.as_deref(), port).await;
        connected.map_err(|error| StreamError::Failed(error.to_string()))
    }
}

/// A pod behind a server.
struct Streaming {
    backend: Arc<PodBackend>,
    server: Arc<StreamingServer>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Streaming {
    async fn start(pod: Pod, network: Option<PathBuf>) -> Self {
        let backend = Arc::new(PodBackend { pod: Mutex::new(pod), network });
        let address = "127.0.0.1:0".parse().unwrap();
        let timeouts = StreamTimeouts::default();
        let shared: Arc<dyn StreamBackend> = Arc::<PodBackend>::clone(&backend);
        let server = Arc::new(StreamingServer::bind(address, shared, timeouts).await.unwrap());
        let stop = CancellationToken::new();
        let task = tokio::spawn(Arc::clone(&server).serve(stop.clone()));
        Self { backend, server, stop, task }
    }

    fn exec(&self, spec: &ContainerSpec, script: &str, options: StreamOptions) -> String {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        self.server.exec_url(ExecRequest { container: spec.id.clone(), command, options }).unwrap()
    }

    fn attach(&self, spec: &ContainerSpec, options: StreamOptions) -> String {
        self.server.attach_url(AttachRequest { container: spec.id.clone(), options }).unwrap()
    }

    async fn stop(self) {
        self.stop.cancel();
        within(self.task).await.unwrap();
    }
}

/// A running container, and the server in front of it.
async fn serve(script: &str, terminal: Terminal, stdin: Stdin) -> (Streaming, ContainerSpec) {
    let mut pod = Pod::new();
    let mut spec = pod.spec(script);
    spec.process.terminal = terminal;
    pod.run_with(&spec, stdin);
    (Streaming::start(pod, None).await, spec)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn exec_over_websocket_runs_in_the_container() {
    let (streaming, spec) = serve("sleep 100", Terminal::None, Stdin::Closed).await;
    let url = streaming.exec(&spec, "cat; ls / | head -1; echo err >&2; exit 3", PIPES);
    let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
    client.write(0, b"text\n").await;
    client.write(255, &[0]).await;
    let all = client.read_end().await;
    assert_eq!((all[&1].as_str(), all[&2].as_str()), ("text\nbin\n", "err\n"));
    assert!(all[&3].contains(r#""causes":[{"reason":"ExitCode","message":"3"}]"#), "{}", all[&3]);
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn exec_over_spdy_has_a_terminal_with_the_clients_size() {
    let (streaming, spec) = serve("sleep 100", Terminal::None, Stdin::Closed).await;
    let url = streaming.exec(&spec, "read line; stty size; test -t 0 && echo terminal; exit 3", TERMINAL);
    let mut client = SpdyClient::connect(&url, "v4.channel.k8s.io").await;
    let [error, stdin, stdout, resize] = client.open_all(["error", "stdin", "stdout", "resize"]).await;
    client.write(resize, br#"{"Width":99,"Height":33}"#, false).await;
    client.write(stdin, b"stty\n", false).await;
    // The terminal echoes input.
    assert_eq!(client.read_end(stdout).await, "stty\r\n33 99\r\nterminal\r\n");
    assert!(client.read_end(error).await.contains(r#""message":"3""#));
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn missing_program_is_reported_to_the_client() {
    let (streaming, spec) = serve("sleep 100", Terminal::None, Stdin::Closed).await;
    let command = vec!["no-such-program".to_owned()];
    let request = ExecRequest { container: spec.id.clone(), command, options: PIPES };
    let url = streaming.server.exec_url(request).unwrap();
    let mut client = WebSocketClient::connect(&url, "v4.channel.k8s.io").await;
    let status = client.read_end().await.remove(&3).unwrap();
    assert!(status.contains("executable file not found in $PATH"), "{status}");
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn client_that_leaves_ends_everything_that_its_command_started() {
    let (streaming, spec) = serve("sleep 100", Terminal::None, Stdin::Closed).await;
    for options in [PIPES, TERMINAL] {
        let url = streaming.exec(&spec, "(trap '' HUP; sleep 4713) & echo ready; sleep 4713", options);
        let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
        client.read_until(1, "ready").await;
        drop(client);
        let left = || {
            let mut pod = streaming.backend.pod.lock();
            pod.exec(&spec.id, process("ps | grep -c '[s]leep 4713'")).unwrap().1
        };
        within(async {
            while left() != "0\n" {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn attached_client_ends_the_input_of_the_container() {
    let (streaming, spec) =
        serve("while read line; do echo got $line; done; echo ended", Terminal::None, Stdin::Once).await;
    let mut client = SpdyClient::connect(&streaming.attach(&spec, PIPES), "v4.channel.k8s.io").await;
    let [error, stdin, stdout, _] = client.open_all(["error", "stdin", "stdout", "stderr"]).await;
    client.write(stdin, b"one\n", false).await;
    client.read_until(stdout, "got one\n").await;
    client.write(stdin, b"two\n", true).await;
    assert_eq!(client.read_end(stdout).await, "got one\ngot two\nended\n");
    assert_eq!(client.read_end(error).await, SUCCESS);
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn attached_terminal_is_resized_and_survives_its_client() {
    let script = "while read line; do stty size; test $line = last && exit 7; done";
    let (streaming, spec) = serve(script, Terminal::New, Stdin::Once).await;
    let url = streaming.attach(&spec, TERMINAL);
    let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
    client.write(4, br#"{"Width":99,"Height":33}"#).await;
    // The size arrives at an unknown time before one of the commands.
    while !client.read_until(1, "").await.contains("33 99") {
        client.write(0, b"x\n").await;
        client.read_until(1, "x\r\n").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.write(0, b"y\n").await;
        client.read_until(1, "y\r\n").await;
    }
    drop(client);
    let url = streaming.attach(&spec, TERMINAL);
    let mut client = WebSocketClient::connect(&url, "v4.channel.k8s.io").await;
    client.write(0, b"last\n").await;
    let all = client.read_end().await;
    assert!(all[&1].contains("33 99"), "{all:?}");
    // The exit code of a container is not that of the session.
    assert_eq!(all[&3], SUCCESS);
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn client_that_does_not_read_is_detached_with_a_failure() {
    let script = "read line; head -c 100000000 /dev/zero; echo end >&2; read line";
    let (streaming, spec) = serve(script, Terminal::None, Stdin::Open).await;
    let options = StreamOptions { stdin: true, stdout: true, ..StreamOptions::default() };
    let url = streaming.attach(&spec, options);
    let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
    client.write(0, b"go\n").await;
    // The container writes everything although the client reads nothing.
    within(async {
        while !streaming.backend.pod.lock().log(&spec.id).contains("E end") {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let all = client.read_end().await;
    assert!(all[&1].len() < 100_000_000);
    assert!(all[&3].contains("did not read the output in time"), "{}", all[&3]);
    streaming.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn ports_are_forwarded_into_the_pods_network_namespace() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let network = pinned.0.network.clone();
    let mut spec = spec_in(&mut pod, &pinned, "ifconfig lo up; echo up; sleep 100");
    spec.process.capabilities = crate::pod::held_capabilities();
    pod.run(&spec);
    while pod.log(&spec.id) != "up\n" {
        std::thread::yield_now();
    }
    let (first, second) = (listen_in(network.as_deref().unwrap(), "127.0.0.1:80"), "[::1]:81");
    let second = listen_in(network.as_deref().unwrap(), second);
    for listener in [first, second] {
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut text = String::new();
            connection.read_to_string(&mut text).unwrap();
            connection.write_all(format!("pod got {text}").as_bytes()).unwrap();
        });
    }
    let streaming = Streaming::start(pod, network).await;
    let request = PortForwardRequest { sandbox: "sandbox".to_owned(), ports: Vec::new() };
    let url = streaming.server.port_forward_url(request).unwrap();
    let mut client = SpdyClient::connect(&url, "portforward.k8s.io").await;
    for port in ["80", "81"] {
        let stream = |kind| [("streamtype", kind), ("port", port), ("requestid", port)];
        let error = client.open(&stream("error")).await;
        let data = client.open(&stream("data")).await;
        client.write(data, b"text", true).await;
        assert_eq!(client.read_end(data).await, "pod got text", "{port}");
        assert_eq!(client.read_end(error).await, "");
    }
    streaming.stop().await;
}

/// Listens inside a network namespace.
fn listen_in(namespace: &std::path::Path, address: &'static str) -> TcpListener {
    let namespace = std::fs::File::open(namespace).unwrap();
    let listen = move || {
        let network = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(namespace.as_fd(), network).unwrap();
        TcpListener::bind(address).unwrap()
    };
    std::thread::spawn(listen).join().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn exec_in_a_user_namespace_is_served() {
    let mut pod = Pod::new();
    let pinned = make_namespaces(&mut pod);
    let spec = spec_in(&mut pod, &pinned, "sleep 100");
    pod.run(&spec);
    let streaming = Streaming::start(pod, None).await;
    for options in [PIPES, TERMINAL] {
        let url = streaming.exec(
            &spec,
            "id -u; cat /proc/self/uid_map | tr -s ' '; echo again > /dev/stdout",
            options,
        );
        let mut client = WebSocketClient::connect(&url, "v5.channel.k8s.io").await;
        let all = client.read_end().await;
        assert_eq!(all[&1].replace('\r', ""), "0\n 0 300000 65536\nagain\n");
        assert_eq!(all[&3], SUCCESS);
    }
    streaming.stop().await;
}
