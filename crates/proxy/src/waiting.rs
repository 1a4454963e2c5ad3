//! Connections that have not said yet what they want.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A bounded set of connections whose requests are being read. When it is full, the one that has
/// waited longest has to go: a client that means well is done in a millisecond, so slow ones can
/// crowd out each other but nobody else.
#[derive(Debug)]
pub(crate) struct WaitingRoom {
    max: usize,
    seats: Mutex<Seats>,
}

#[derive(Debug, Default)]
struct Seats {
    last_number: u64,
    taken: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// A place in the waiting room, given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Arc<WaitingRoom>,
    number: u64,
    asked_to_leave: oneshot::Receiver<()>,
}

impl WaitingRoom {
    pub(crate) fn new(max: usize) -> Self {
        WaitingRoom { max, seats: Mutex::default() }
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Seat {
        let (ask, asked_to_leave) = oneshot::channel();
        let mut seats = self.lock();
        seats.last_number += 1;
        let number = seats.last_number;
        seats.taken.push_back((number, ask));
        if seats.taken.len() > self.max
            && let Some((_, longest)) = seats.taken.pop_front()
        {
            // It may be leaving by itself just now.
            let _ = longest.send(());
        }
        Seat { room: Arc::clone(self), number, asked_to_leave }
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until the seat is needed for somebody else.
    pub(crate) async fn asked_to_leave(&mut self) {
        if (&mut self.asked_to_leave).await.is_err() {
            // The room itself is gone, and nobody will ask.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.room.lock().taken.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waited_longest_goes_first() {
        let room = Arc::new(WaitingRoom::new(2));
        let mut first = room.enter();
        let mut second = room.enter();
        assert!(first.asked_to_leave.try_recv().is_err());
        let mut third = room.enter();
        assert!(first.asked_to_leave.try_recv().is_ok());
        drop(second);
        let fourth = room.enter();
        assert!(third.asked_to_leave.try_recv().is_err(), "there was a free seat");
        drop((first, third, fourth));
        assert!(room.lock().taken.is_empty());
        second = room.enter();
        assert!(second.asked_to_leave.try_recv().is_err());
    }
}
