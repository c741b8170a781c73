//! Work shared out to threads: numbered pieces. Each free thread takes the next piece.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, Builder};

/// The most threads. More of them would share one memory bus that cannot feed them.
const MOST_THREADS: usize = 64;

/// The worker of a piece: the thread that was called, or a thread that helps it.
#[derive(Clone, Copy, PartialEq)]
pub enum Worker {
    Caller,
    Helper,
}

/// Do all pieces, in order of their numbers, in this thread and at most `threads - 1` more. Return when all are done.
///
/// If the system gives no more threads, those that run do the work. A panic of any thread is a panic of the caller.
pub fn share_out(pieces: usize, threads: usize, work: impl Fn(usize, Worker) + Sync) {
    let next = AtomicUsize::new(0);
    let run = |worker| {
        loop {
            let piece = next.fetch_add(1, Relaxed);
            if piece >= pieces {
                break;
            }
            work(piece, worker);
        }
    };
    thread::scope(|scope| {
        let helpers = threads.min(pieces).min(MOST_THREADS).saturating_sub(1);
        let helpers: Vec<_> =
            (0..helpers).map_while(|_| Builder::new().spawn_scoped(scope, || run(Worker::Helper)).ok()).collect();
        run(Worker::Caller);
        for helper in helpers {
            if let Err(panic) = helper.join() {
                resume_unwind(panic);
            }
        }
    });
}

/// The first fault of any thread, in order of places.
pub struct First<T> {
    place: AtomicUsize,
    found: Mutex<Option<T>>,
}

impl<T> First<T> {
    pub fn none() -> Self {
        First { place: AtomicUsize::new(usize::MAX), found: Mutex::new(None) }
    }

    /// Return whether there is a fault before this place. Faults after it do not matter.
    #[inline]
    pub fn is_before(&self, place: usize) -> bool {
        self.place.load(Relaxed) < place
    }

    pub fn record(&self, place: usize, fault: T) {
        let mut found = self.found.lock().expect("nothing panics while it holds this");
        if place < self.place.load(Relaxed) {
            self.place.store(place, Relaxed);
            *found = Some(fault);
        }
    }

    /// Return the first place and its fault.
    pub fn into_found(self) -> Option<(usize, T)> {
        let place = self.place.into_inner();
        self.found.into_inner().expect("nothing panics while it holds this").map(|fault| (place, fault))
    }
}
