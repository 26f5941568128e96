//! A channel of keys that coalesces.

use std::hash::Hash;
use std::sync::Arc;

use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::WorkQueue;

/// A channel whose queue holds each key at most once, so that it never grows beyond the number of keys, however slow the
/// receiver is. Suits hints that only say which row of a table to read again.
#[must_use]
pub fn key_channel<K>() -> (KeySender<K>, KeyReceiver<K>) {
    let queue = Arc::<Mutex<WorkQueue<K>>>::default();
    // One pending wake-up is enough: the receiver empties the queue before it waits again.
    let (wake, woken) = mpsc::channel(1);
    (KeySender { queue: Arc::clone(&queue), wake }, KeyReceiver { queue, woken })
}

#[derive(Debug)]
pub struct KeySender<K> {
    queue: Arc<Mutex<WorkQueue<K>>>,
    wake: mpsc::Sender<()>,
}

impl<K> Clone for KeySender<K> {
    fn clone(&self) -> Self {
        Self { queue: Arc::clone(&self.queue), wake: self.wake.clone() }
    }
}

impl<K: Clone + Eq + Hash> KeySender<K> {
    /// Queues a key, unless it waits already. False when the receiver is dropped.
    pub fn send(&self, key: K) -> bool {
        if self.wake.is_closed() {
            return false;
        }
        self.queue.lock().push(key);
        // A full channel means that a wake-up is pending.
        let _ = self.wake.try_send(());
        true
    }
}

#[derive(Debug)]
pub struct KeyReceiver<K> {
    queue: Arc<Mutex<WorkQueue<K>>>,
    woken: mpsc::Receiver<()>,
}

impl<K: Clone + Eq + Hash> KeyReceiver<K> {
    /// Waits for a key; `None` when all senders are dropped and the queue is empty. Cancel safe.
    pub async fn recv(&mut self) -> Option<K> {
        loop {
            if let Some(key) = self.try_recv() {
                return Some(key);
            }
            if self.woken.recv().await.is_none() {
                return self.try_recv();
            }
        }
    }

    /// The keys as a stream that ends with the last sender.
    pub fn into_stream(self) -> impl Stream<Item = K> + Send
    where
        K: Send,
    {
        futures::stream::unfold(self, async |mut receiver| {
            let key = receiver.recv().await?;
            Some((key, receiver))
        })
    }

    /// Takes a key that waits.
    pub fn try_recv(&mut self) -> Option<K> {
        self.queue.lock().discard_oldest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn key_waits_once_and_is_received_again_after_a_new_send() {
        let (sender, mut receiver) = key_channel();
        for key in ["a", "b", "a"] {
            sender.send(key);
        }
        assert_eq!(
            (receiver.recv().await, receiver.recv().await, receiver.try_recv()),
            (Some("a"), Some("b"), None)
        );
        sender.send("a");
        assert_eq!(receiver.recv().await, Some("a"));
    }

    #[tokio::test]
    async fn ends_when_all_senders_are_dropped_and_the_queue_is_empty() {
        let (sender, mut receiver) = key_channel();
        sender.clone().send(1);
        drop(sender);
        assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
    }

    #[tokio::test]
    async fn a_waiting_receiver_is_woken() {
        let (sender, mut receiver) = key_channel();
        let received = tokio::spawn(async move { receiver.recv().await });
        tokio::task::yield_now().await;
        sender.send(7);
        assert_eq!(received.await.unwrap(), Some(7));
    }
}
