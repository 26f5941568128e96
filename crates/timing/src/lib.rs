//! Timing mechanisms, each written once: backoff, jitter, debounce, delay queue, work queue, rate limit,
//! limiter, keyed lock.
//!
//! [`Backoff`], [`jitter`] and [`WorkQueue`] are pure state machines: they receive time and randomness as arguments, so
//! that `decide` uses them too. The feature `tokio` adds the parts that read tokio's clock, wait or draw random numbers;
//! tests control them with a paused clock.
//!
//! The crate does not run operations and does not log: a retry loop stays at its caller, and takes its delays from here.

mod backoff;
mod jitter;
mod work_queue;

#[cfg(feature = "tokio")]
mod debounce;
#[cfg(feature = "tokio")]
mod delay_queue;
#[cfg(feature = "tokio")]
mod key_channel;
#[cfg(feature = "tokio")]
mod keyed_lock;
#[cfg(feature = "tokio")]
mod limiter;
#[cfg(feature = "tokio")]
mod random;
#[cfg(feature = "tokio")]
mod sleep;
#[cfg(feature = "tokio")]
mod throttle;
#[cfg(feature = "tokio")]
mod token_bucket;

pub use backoff::{Backoff, BackoffPolicy};
pub use jitter::{fraction_of, jitter, up_to};
pub use work_queue::WorkQueue;

#[cfg(feature = "tokio")]
pub use debounce::Debounce;
#[cfg(feature = "tokio")]
pub use delay_queue::DelayQueue;
#[cfg(feature = "tokio")]
pub use key_channel::{KeyReceiver, KeySender, key_channel};
#[cfg(feature = "tokio")]
pub use keyed_lock::{KeyedLock, KeyedLockGuard};
#[cfg(feature = "tokio")]
pub use limiter::{Limiter, Permit};
#[cfg(feature = "tokio")]
pub use random::random;
#[cfg(feature = "tokio")]
pub use sleep::sleep_until;
#[cfg(feature = "tokio")]
pub use throttle::Throttle;
#[cfg(feature = "tokio")]
pub use token_bucket::{RateLimiter, TokenBucket};
