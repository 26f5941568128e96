//! Handlers of the requests to a keeper.

use std::os::fd::OwnedFd;

use super::container::{Container, ContainerError};
use super::event_loop::Keeper;
use super::output::describe;
use super::protocol::{ContainerState, FailureKind, Request, Response, VERSION};
use crate::launcher::make_pod_namespaces;

/// Executes a request. `descriptors` came with it.
pub(super) fn handle(keeper: &mut Keeper, request: Request, descriptors: Vec<OwnedFd>) -> Response {
    match try_handle(keeper, request, descriptors) {
        Ok(response) => response,
        Err(Refusal { kind, message }) => Response::Failed { kind, message },
    }
}

struct Refusal {
    kind: FailureKind,
    message: String,
}

fn refuse<T>(kind: FailureKind, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { kind, message: message.into() })
}

impl From<ContainerError> for Refusal {
    fn from(error: ContainerError) -> Self {
        match error {
            ContainerError::WrongState(reason) => {
                Self { kind: FailureKind::WrongState, message: reason.to_owned() }
            }
            ContainerError::Launch(error) => Self { kind: FailureKind::Launch, message: describe(&error) },
        }
    }
}

fn try_handle(keeper: &mut Keeper, request: Request, descriptors: Vec<OwnedFd>) -> Result<Response, Refusal> {
    match request {
        Request::Hello { .. } => Ok(Response::Hello { version: VERSION }),
        Request::Create { container: spec, stdin, log, oom_counter } => {
            if !is_id(&spec.id) {
                return refuse(FailureKind::BadRequest, "the container id is not 64 hexadecimal digits");
            }
            if keeper.containers.contains_key(&spec.id) {
                return refuse(FailureKind::WrongState, "the container exists");
            }
            let id = spec.id.clone();
            let container = Container::create(*spec, stdin, log.as_deref(), oom_counter)
                .map_err(ContainerError::Launch)?;
            keeper.containers.insert(id, container);
            Ok(Response::Done)
        }
        Request::Start { container: id } => {
            let Some(container) = keeper.containers.remove(&id) else { return unknown(&id) };
            let (container, result) = container.start();
            keeper.containers.insert(id, container);
            Ok(Response::Started { pid: result? })
        }
        Request::Exec { container, exec, process } => {
            if !is_id(&exec) {
                return refuse(FailureKind::BadRequest, "the exec id is not 64 hexadecimal digits");
            }
            let pid = find(keeper, &container)?.exec(exec, &process, descriptors)?;
            Ok(Response::Started { pid })
        }
        Request::MakeNamespaces(namespaces) => {
            make_pod_namespaces(&namespaces).map_err(ContainerError::Launch)?;
            Ok(Response::Done)
        }
        Request::Attach { container, streams } => {
            find(keeper, &container)?.attach(streams, descriptors)?;
            Ok(Response::Done)
        }
        Request::Resize { container, size } => match find(keeper, &container)?.streams.resize(size) {
            Ok(()) => Ok(Response::Done),
            Err(message) => refuse(FailureKind::WrongState, message),
        },
        Request::Signal { container, signal } => {
            find(keeper, &container)?.signal(signal)?;
            Ok(Response::Done)
        }
        Request::KillExec { container, exec } => {
            find(keeper, &container)?.kill_exec(&exec);
            Ok(Response::Done)
        }
        Request::ReopenLog { container } => match find(keeper, &container)?.streams.reopen_log() {
            Ok(()) => Ok(Response::Done),
            Err(message) => refuse(FailureKind::WrongState, message),
        },
        Request::List => Ok(Response::Containers(list(keeper))),
        Request::Remove { container: id } => {
            let Some(container) = keeper.containers.remove(&id) else { return unknown(&id) };
            match container.release() {
                Ok(()) => Ok(Response::Done),
                Err(container) => {
                    keeper.containers.insert(id, *container);
                    refuse(FailureKind::WrongState, "the container is running")
                }
            }
        }
        Request::Shutdown => {
            if keeper.containers.is_empty() {
                keeper.shut_down = true;
                Ok(Response::Done)
            } else {
                refuse(FailureKind::WrongState, "the pod has containers")
            }
        }
    }
}

fn find<'a>(keeper: &'a mut Keeper, id: &str) -> Result<&'a mut Container, Refusal> {
    match keeper.containers.get_mut(id) {
        Some(container) => Ok(container),
        None => unknown(id),
    }
}

fn unknown<T>(id: &str) -> Result<T, Refusal> {
    refuse(FailureKind::NotFound, format!("container {id} is not known"))
}

fn list(keeper: &Keeper) -> Vec<ContainerState> {
    let state = |(id, container): (&String, &Container)| ContainerState {
        container: id.clone(),
        stage: container.stage(),
    };
    keeper.containers.iter().map(state).collect()
}

/// Ids become names of files and cgroups.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
