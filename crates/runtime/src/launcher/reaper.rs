//! The first process of a PID namespace that several containers share: it executes no program, and waits for processes that lost
//! their parent.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::raw;

/// Never returns.
pub(super) fn reap_for_ever() -> ! {
    let Ok(signals) = raw::exit_signals() else { raw::exit_now(1) };
    loop {
        while let Ok(Some(_)) = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {}
        // Fails only if interrupted.
        let _ = poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
        let _ = rustix::io::read(&signals, &mut [0; 128][..]);
    }
}
