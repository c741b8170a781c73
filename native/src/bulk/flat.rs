//! Keys in flat memory, hashed by any number of threads while the interpreter is unlocked.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

use super::arrow_abi::{self, Array, Taken};
use super::block::{BLOCK, Block, Form, REFERENCE};
use super::chunk::{Chunk, Fault};
use super::shares::{First, share_out};
use crate::locator::Locator;
use crate::refusal::refusal;

/// The keys that a thread takes at a time.
const SHARE: usize = 64 * BLOCK;
/// The fewest keys worth an unlocked interpreter. Hashing fewer takes less time than getting the lock back.
const WORTH_UNLOCKING: usize = 4 * BLOCK;

/// Arrays one after the other, and the owner of their memory.
pub struct Flat<'py> {
    chunks: Vec<Placed>,
    len: usize,
    origin: Origin<'py>,
}

/// An array: the place of its first key, the number of keys, and the keys.
struct Placed {
    start: usize,
    len: usize,
    chunk: Chunk,
}

/// The owner of the memory, which stays as long as this value.
#[expect(dead_code, reason = "some of it is only held")]
pub enum Origin<'py> {
    /// The capsules, the arrays taken out of a stream, and whether their bytes are text.
    Arrow(Vec<Bound<'py, PyAny>>, Vec<Taken<Array>>, bool),
    /// The view, and the hold on its buffer.
    Buffer(Bound<'py, PyAny>, PyUntypedBuffer),
}

impl<'py> Flat<'py> {
    pub fn of(origin: Origin<'py>, chunks: impl IntoIterator<Item = (usize, Chunk)>) -> Self {
        let mut flat = Flat { chunks: Vec::new(), len: 0, origin };
        for (len, chunk) in chunks {
            flat.chunks.push(Placed { start: flat.len, len, chunk });
            flat.len += len;
        }
        flat
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn each_block<L, F>(&self, py: Python<'py>, locator: &L, threads: usize, sink: &F) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]) + Sync,
    {
        // All arrays are of one kind, so the first key is the first of a wrong kind.
        if let Some(other) = self.chunks.first().filter(|placed| placed.len > 0 && !placed.chunk.is_taken(locator)) {
            return Err(self.origin.kind_refusal(py, locator, &other.chunk));
        }
        if !locator.is_native() {
            return self.locked(py, locator, sink);
        }
        let chunks = &self.chunks;
        let fault = if self.len < WORTH_UNLOCKING {
            unlocked(chunks, locator, 1, sink)
        } else {
            py.detach(|| unlocked(chunks, locator, threads, sink))
        };
        fault.map_or(Ok(()), |(place, fault)| Err(self.origin.refusal(py, locator, place, fault)))
    }

    /// Locate all keys by a function that needs the interpreter.
    fn locked<L, F>(&self, py: Python<'py>, locator: &L, sink: &F) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]),
    {
        let mut block = Block::new();
        let mut positions = [0; BLOCK];
        for placed in &self.chunks {
            let mut from = 0;
            while from < placed.len {
                // SAFETY: the rows are there, and the origin keeps their memory; so below.
                let (read, fault) = unsafe { placed.chunk.read(from, BLOCK.min(placed.len - from), &mut block) };
                for (place, position) in positions[..read].iter_mut().enumerate() {
                    // SAFETY: as above; as many were read.
                    *position = locator.position_with(py, unsafe { block.key(place) })?;
                }
                if let Some(fault) = fault {
                    return Err(self.origin.refusal(py, locator, placed.start + from + read, fault));
                }
                sink(placed.start + from, &positions[..read]);
                from += read;
            }
        }
        Ok(())
    }
}

/// Locate all keys. Return the place and the fault of the first faulty key.
fn unlocked<L, F>(chunks: &[Placed], locator: &L, threads: usize, sink: &F) -> Option<(usize, Fault)>
where
    L: Locator,
    F: Fn(usize, &[u64]) + Sync,
{
    let shares: Vec<(&Placed, usize)> =
        chunks.iter().flat_map(|placed| (0..placed.len).step_by(SHARE).map(move |from| (placed, from))).collect();
    let first = First::none();
    share_out(shares.len(), threads, |piece, _| {
        let (placed, mut from) = shares[piece];
        let end = placed.len.min(from + SHARE);
        let mut block = Block::new();
        while from < end && !first.is_before(placed.start + from) {
            // SAFETY: the rows are there, and the origin keeps their memory until all threads have ended; so below.
            let (read, fault) = unsafe { placed.chunk.read(from, BLOCK.min(end - from), &mut block) };
            if let Some(fault) = fault {
                first.record(placed.start + from + read, fault);
                return;
            }
            // SAFETY: as above; as many were read.
            sink(placed.start + from, unsafe { block.located(locator, read) });
            from += read;
        }
    });
    first.into_found()
}

impl<'py> Origin<'py> {
    /// Return the reference's error for a faulty key.
    fn refusal(&self, py: Python<'py>, locator: &impl Locator, place: usize, fault: Fault) -> PyErr {
        match (self, fault) {
            (Origin::Buffer(view, _), _) => {
                let key = py.import(REFERENCE).and_then(|module| module.getattr("key_at")?.call1((view, place)));
                key.map_or_else(|error| error, |key| locator.refusal(py, key))
            }
            (_, Fault::Number(value)) => locator.refusal(py, PyInt::new(py, value).into_any()),
            (_, Fault::Long(size)) => refusal(py, arrow_abi::REFERENCE, "refuse_length", (place, size)),
            (_, Fault::Beyond { begin, end, size }) => {
                refusal(py, arrow_abi::REFERENCE, "refuse_extent", (place, begin, end, size))
            }
            (_, Fault::Unreadable) => unreachable!("Arrow arrays have no fixed width"),
        }
    }

    /// Return the reference's error for the first key of an array, if the locator does not take its kind.
    #[cold]
    fn kind_refusal(&self, py: Python<'py>, locator: &impl Locator, chunk: &Chunk) -> PyErr {
        let mut block = Block::new();
        // SAFETY: there is a row, and the origin keeps its memory; so below.
        let (_, fault) = unsafe { chunk.read(0, 1, &mut block) };
        match (self, fault) {
            (Origin::Arrow(.., is_text), None) => {
                // SAFETY: as above; it was read.
                let data = unsafe { block.key(0) };
                locator.refusal(py, key_of(py, block.form, data, *is_text))
            }
            (_, fault) => self.refusal(py, locator, 0, fault.unwrap_or(Fault::Unreadable)),
        }
    }
}

/// Return a key as the reference reads it from an Arrow array.
fn key_of<'py>(py: Python<'py>, form: Form, data: &[u8], is_text: bool) -> Bound<'py, PyAny> {
    match (form, data.first_chunk(), std::str::from_utf8(data)) {
        (Form::Words, Some(&word), _) => PyInt::new(py, i64::from_le_bytes(word)).into_any(),
        (Form::Bytes, _, Ok(text)) if is_text => PyString::new(py, text).into_any(),
        _ => PyBytes::new(py, data).into_any(),
    }
}
