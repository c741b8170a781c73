//! Work shared out to threads: numbered pieces, of which whoever is free takes the next one.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{self, Builder};

/// More threads than this share no memory bus that would feed them.
const MOST_THREADS: usize = 64;

/// Who does a piece of the work: the thread that was called, or one that helps it.
#[derive(Clone, Copy, PartialEq)]
pub enum Worker {
    Caller,
    Helper,
}

/// Do all pieces, in order of their numbers, in this thread and at most `threads - 1` more; return when all are done.
///
/// Where no thread can be had, those that there are do the work. A panic of any is one of the caller.
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

/// The first in order of what went wrong in any thread.
pub struct First<T> {
    place: AtomicUsize,
    found: Mutex<Option<T>>,
}

impl<T> First<T> {
    pub fn none() -> Self {
        First { place: AtomicUsize::new(usize::MAX), found: Mutex::new(None) }
    }

    /// Whether something went wrong before this place: then what is here does not matter.
    #[inline]
    pub fn is_before(&self, place: usize) -> bool {
        self.place.load(Relaxed) < place
    }

    pub fn record(&self, place: usize, what: T) {
        let mut found = self.found.lock().expect("nothing panics while it holds this");
        if place < self.place.load(Relaxed) {
            self.place.store(place, Relaxed);
            *found = Some(what);
        }
    }

    /// The first place, and what went wrong there.
    pub fn into_found(self) -> Option<(usize, T)> {
        let place = self.place.into_inner();
        self.found.into_inner().expect("nothing panics while it holds this").map(|what| (place, what))
    }
}
