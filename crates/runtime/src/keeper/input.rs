//! Standard input of a container. It stays open while no client is attached.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, write};

#[derive(Debug)]
pub(super) struct Input {
    target: Option<OwnedFd>,
    /// Data that the container has not taken yet. Clients are read only while there is none, so it is one read at most.
    unsent: Vec<u8>,
}

impl Input {
    pub(super) fn new(target: Option<OwnedFd>) -> Self {
        Self { target, unsent: Vec::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the next data of a client can be read.
    pub(super) fn accepts_more(&self) -> bool {
        self.is_open() && self.unsent.is_empty()
    }

    /// What to poll for space.
    pub(super) fn waits_for_space(&self) -> Option<BorrowedFd<'_>> {
        self.target.as_ref().filter(|_| !self.unsent.is_empty()).map(AsFd::as_fd)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.flush();
    }

    /// Writes what the container takes. A container that has closed its input takes nothing more.
    pub(super) fn flush(&mut self) {
        let Some(target) = &self.target else { return };
        while !self.unsent.is_empty() {
            match write(target, &self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return self.close(),
            }
        }
        self.unsent = Vec::new();
    }

    pub(super) fn close(&mut self) {
        self.target = None;
        self.unsent = Vec::new();
    }
}
