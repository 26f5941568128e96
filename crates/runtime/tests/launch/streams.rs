//! Terminals, standard input and attached clients.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

use runtime::keeper::protocol::{AttachedStreams, FailureKind, Request, Response, Stdin};
use runtime::launcher::{Terminal, TerminalSize};

use crate::pod::{Pod, process};

const OUTPUT: AttachedStreams = AttachedStreams { stdin: false, stdout: true, stderr: false };
const BOTH: AttachedStreams = AttachedStreams { stdin: true, stdout: true, stderr: false };

/// Reads until `expected` has arrived.
fn read_until(file: &mut File, expected: &str) -> String {
    let mut text = String::new();
    let mut chunk = [0; 1024];
    while !text.contains(expected) {
        let read = file.read(&mut chunk).unwrap();
        assert_ne!(read, 0, "the output ended: {text}");
        text.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
    }
    text
}

fn rest(file: &mut File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

fn resize(pod: &mut Pod, id: &str, columns: u16, rows: u16) -> Response {
    pod.ask(&Request::Resize { container: id.to_owned(), size: TerminalSize { columns, rows } })
}

#[test]
#[ignore = "needs root"]
fn terminal_is_console_and_controlling_terminal_and_logs_one_stream() {
    let mut pod = Pod::new();
    let mut spec = pod.spec(
        "test -t 0 && test -t 1 && test -t 2 && echo terminal; echo error >&2; (: < /dev/tty) && echo controlling; \
         ls -l /dev/console | head -c 10; echo; readlink /proc/self/fd/0; stat -c '%u:%g %a' /dev/pts/0; ls -1 /dev/pts",
    );
    spec.process.terminal = Terminal::New;
    let (code, log) = pod.output(&spec);
    assert_eq!(
        (code, log.as_str()),
        (0, "terminal\nerror\ncontrolling\ncrw--w----\n/dev/pts/0\n0:5 620\n0\nptmx\n")
    );
}

#[test]
#[ignore = "needs root"]
fn terminal_of_other_user_belongs_to_it() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("stat -c '%u:%g' /dev/pts/0; echo again > /dev/stdout");
    spec.process.terminal = Terminal::New;
    spec.process.user = runtime::launcher::User { uid: 1000, gid: 1000, groups: vec![1000] };
    assert_eq!(pod.output(&spec), (0, "1000:5\nagain\n".to_owned()));
}

#[test]
#[ignore = "needs root"]
fn resized_terminal_reports_its_size() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("read line; stty size; read line; stty size");
    spec.process.terminal = Terminal::New;
    pod.run(&spec);
    let [input, output, _] = pod.attach(&spec.id, BOTH).unwrap();
    let (mut input, mut output) = (input.unwrap(), output.unwrap());
    assert_eq!(resize(&mut pod, &spec.id, 80, 24), Response::Done);
    input.write_all(b"go\n").unwrap();
    read_until(&mut output, "24 80");
    assert_eq!(resize(&mut pod, &spec.id, 132, 43), Response::Done);
    input.write_all(b"go\n").unwrap();
    assert!(rest(&mut output).contains("43 132"));
    assert_eq!(pod.exit(&spec.id).code, 0);
}

#[test]
#[ignore = "needs root"]
fn container_without_terminal_cannot_be_resized() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    let response = resize(&mut pod, &spec.id, 80, 24);
    assert!(
        matches!(&response, Response::Failed { kind: FailureKind::WrongState, message } if message.contains("no terminal")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn interrupt_character_ends_foreground_process_of_terminal() {
    let mut pod = Pod::new();
    let mut spec =
        pod.spec("trap 'echo interrupted; exit 9' INT; echo ready; while true; do sleep 0.05; done");
    spec.process.terminal = Terminal::New;
    pod.run(&spec);
    while !pod.log(&spec.id).contains("ready") {
        std::thread::yield_now();
    }
    let [input, output, _] = pod.attach(&spec.id, BOTH).unwrap();
    input.unwrap().write_all(&[3]).unwrap();
    assert_eq!(pod.exit(&spec.id).code, 9);
    drop(output);
}

#[test]
#[ignore = "needs root"]
fn input_stays_open_without_clients_and_takes_data_of_all_of_them() {
    let mut pod = Pod::new();
    let spec = pod.spec("read a; read b; echo $a-$b; cat");
    pod.run_with(&spec, Stdin::Open);
    let [first, ..] = pod.attach(&spec.id, BOTH).unwrap();
    first.unwrap().write_all(b"one\n").unwrap();
    let [second, output, _] = pod.attach(&spec.id, BOTH).unwrap();
    let (mut second, mut output) = (second.unwrap(), output.unwrap());
    second.write_all(b"two\n").unwrap();
    read_until(&mut output, "one-two\n");
    // The end of a client's input ends its session, and not the input of the container.
    drop(second);
    assert_eq!(rest(&mut output), "");
    let [third, output, _] = pod.attach(&spec.id, BOTH).unwrap();
    third.as_ref().unwrap().write_all(b"three\n").unwrap();
    read_until(&mut output.unwrap(), "three\n");
    pod.kill(&spec.id);
    assert_eq!(pod.exit(&spec.id).code, 137);
}

#[test]
#[ignore = "needs root"]
fn input_for_one_client_ends_with_it_and_output_continues() {
    let mut pod = Pod::new();
    let spec = pod.spec("cat; echo ended; echo error >&2");
    pod.run_with(&spec, Stdin::Once);
    let all = AttachedStreams { stdin: true, stdout: true, stderr: true };
    let [input, output, error] = pod.attach(&spec.id, all).unwrap();
    let (mut input, mut output, mut error) = (input.unwrap(), output.unwrap(), error.unwrap());
    input.write_all(b"echoed\n").unwrap();
    read_until(&mut output, "echoed\n");
    drop(input);
    assert_eq!(rest(&mut output), "ended\n");
    assert_eq!(rest(&mut error), "error\n");
    assert_eq!(pod.exit(&spec.id).code, 0);
    assert_eq!(pod.log(&spec.id), "echoed\nended\nE error\n");
}

#[test]
#[ignore = "needs root"]
fn large_input_reaches_a_slow_container_completely() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 0.2; wc -c");
    pod.run_with(&spec, Stdin::Once);
    let [input, output, _] = pod.attach(&spec.id, BOTH).unwrap();
    let mut input = input.unwrap();
    input.write_all(&vec![b'x'; 3 << 20]).unwrap();
    drop(input);
    assert_eq!(rest(&mut output.unwrap()), "3145728\n");
    assert_eq!(pod.exit(&spec.id).code, 0);
}

#[test]
#[ignore = "needs root"]
fn container_without_input_ignores_that_of_clients() {
    let mut pod = Pod::new();
    let spec = pod.spec("cat; cat /pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        spec.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    pod.run(&spec);
    let [input, output, _] = pod.attach(&spec.id, BOTH).unwrap();
    let refused = input.unwrap().write_all(b"x");
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    fs::write(spec.root.join("pipe"), "later\n").unwrap();
    assert_eq!(rest(&mut output.unwrap()), "later\n");
}

#[test]
#[ignore = "needs root"]
fn client_that_does_not_read_blocks_neither_container_nor_log() {
    const CHUNK: usize = 1_000_000;
    let mut pod = Pod::new();
    let spec = pod.spec("while read line; do head -c 1000000 /dev/zero; test $line = last && exit 0; done");
    pod.run_with(&spec, Stdin::Open);
    let [_, slow, _] = pod.attach(&spec.id, OUTPUT).unwrap();
    let [input, quick, _] = pod.attach(&spec.id, BOTH).unwrap();
    let (mut input, mut quick) = (input.unwrap(), quick.unwrap());
    let mut chunk = vec![1; CHUNK];
    for line in ["a\n", "b\n", "c\n", "d\n", "e\n", "last\n"] {
        input.write_all(line.as_bytes()).unwrap();
        quick.read_exact(&mut chunk).unwrap();
        assert!(chunk.iter().all(|byte| *byte == 0));
        chunk.fill(1);
    }
    assert_eq!(rest(&mut quick), "");
    assert_eq!(pod.exit(&spec.id).code, 0);
    let logged: usize = pod.log(&spec.id).lines().map(str::len).sum();
    assert_eq!(logged, 6 * CHUNK);
    assert!(rest(&mut slow.unwrap()).len() < 5 * CHUNK, "the slow client was detached");
}

#[test]
#[ignore = "needs root"]
fn container_that_has_ended_cannot_be_attached() {
    let mut pod = Pod::new();
    let spec = pod.spec("true");
    pod.output(&spec);
    let response = pod.attach(&spec.id, OUTPUT).unwrap_err();
    assert!(matches!(response, Response::Failed { kind: FailureKind::WrongState, .. }), "{response:?}");
}

#[test]
#[ignore = "needs root"]
fn executed_process_gets_a_terminal_of_the_container() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    let mut exec = process(
        "read line; stty size; test -t 2 && (: < /dev/tty) && echo controlling; readlink /proc/self/fd/1",
    );
    exec.terminal = Terminal::New;
    let (id, mut master) = pod.start_exec_with_terminal(&spec.id, exec).unwrap();
    let size = rustix::termios::Winsize { ws_row: 33, ws_col: 99, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size).unwrap();
    master.write_all(b"go\n").unwrap();
    read_until(&mut master, "33 99\r\ncontrolling\r\n/dev/pts/0\r\n");
    assert_eq!(pod.exec_exit(&id).code, 0);
    drop(master);
    let (_, left) = pod.exec(&spec.id, process("ls /dev/pts")).unwrap();
    assert_eq!(left, "ptmx\n", "the terminal is gone with its process");
}

#[test]
#[ignore = "needs root"]
fn replaced_terminal_multiplexer_is_refused() {
    let mut pod = Pod::new();
    let mut spec = pod.spec("true");
    // The request brings its own /dev, in which the image has prepared files.
    spec.mounts.retain(|mount| !mount.destination.starts_with("/dev"));
    spec.devices = runtime::launcher::DeviceNodes::None;
    fs::create_dir_all(spec.root.join("dev/pts")).unwrap();
    fs::write(spec.root.join("dev/pts/ptmx"), "").unwrap();
    spec.process.terminal = Terminal::New;
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("not the multiplexer")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn console_behind_a_symlink_is_refused() {
    let mut pod = Pod::new();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let mut spec = pod.spec("true");
    spec.mounts.retain(|mount| mount.destination != std::path::Path::new("/dev"));
    fs::create_dir_all(spec.root.join("dev")).unwrap();
    std::os::unix::fs::symlink(outside.path(), spec.root.join("dev/console")).unwrap();
    spec.process.terminal = Terminal::New;
    let response = pod.create(&spec);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("neither a file nor a device")),
        "{response:?}"
    );
}

#[test]
#[ignore = "needs root"]
fn request_with_wrong_descriptors_is_refused() {
    let mut pod = Pod::new();
    let spec = pod.spec("sleep 100");
    pod.run(&spec);
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let mut exec = process("true");
    exec.terminal = Terminal::New;
    let request = Request::Exec { container: spec.id.clone(), exec: "e".repeat(64), process: Box::new(exec) };
    let response = pod.ask_with(&request, &[null()]);
    assert!(
        matches!(&response, Response::Failed { message, .. } if message.contains("send the terminal")),
        "{response:?}"
    );
    let response = pod.ask(&Request::Attach { container: spec.id.clone(), streams: BOTH });
    assert!(matches!(&response, Response::Failed { .. }), "{response:?}");
    // The connection is still usable.
    assert_eq!(pod.exec(&spec.id, process("echo works")).unwrap().1, "works\n");
}
