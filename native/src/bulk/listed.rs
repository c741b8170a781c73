//! Keys in a list or tuple.
//!
//! Plain keys are read from the objects in memory, which stay while the interpreter is locked. Helper threads read them
//! too, while the caller holds the lock for them and waits. The caller alone reads all other keys, one by one, because
//! this may run code that changes the list. It takes hold of every key of the list first.

use std::cell::OnceCell;
use std::sync::Mutex;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::block::{BLOCK, Block, REFERENCE};
use super::layout::{self, Layout};
use super::shares::{Worker, share_out};
use crate::locator::Locator;
use crate::refusal::refusal;

/// The blocks that a thread takes at a time.
const SHARE: usize = 16;
/// The keys of one turn, which takes some milliseconds. Other Python threads run between turns.
const TURN: usize = 1 << 19;

/// A list or tuple, as it was when the call began.
pub struct Listed<'py> {
    keys: Bound<'py, PyAny>,
    len: usize,
    held: OnceCell<Vec<Py<PyAny>>>,
}

impl<'py> Listed<'py> {
    /// Take an exact list or tuple.
    pub fn of(keys: &Bound<'py, PyAny>) -> Self {
        Listed { keys: keys.clone(), len: size_of_now(keys), held: OnceCell::new() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn each_block<L, F>(&self, py: Python<'py>, locator: &L, threads: usize, sink: &F) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]) + Sync,
    {
        self.check_unchanged(py)?;
        let mut block = Block::new();
        let Some(layout) = layout::known().filter(|_| locator.is_native()) else {
            return (0..self.len).step_by(BLOCK).try_for_each(|start| self.one_by_one(py, locator, start, sink));
        };
        for start in (0..self.len).step_by(TURN) {
            if start > 0 {
                py.detach(|| ());
            }
            self.check_unchanged(py)?;
            let end = self.len.min(start + TURN);
            if threads > 1 && end - start > SHARE * BLOCK {
                self.shared(py, locator, threads, sink, (layout, start, end))?;
            } else {
                for start in (start..end).step_by(BLOCK) {
                    self.block(py, locator, sink, (layout, start, end), &mut block)?;
                }
            }
        }
        Ok(())
    }

    /// Locate the keys of a turn with helpers. The caller then locates the blocks that no thread could read.
    fn shared<L, F>(
        &self,
        py: Python<'py>,
        locator: &L,
        threads: usize,
        sink: &F,
        (layout, start, end): (Layout, usize, usize),
    ) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]) + Sync,
    {
        let (items, len) = (Items(self.items(layout)), self.len);
        let left = Mutex::new(Vec::new());
        share_out((end - start).div_ceil(SHARE * BLOCK), threads, |piece, worker| {
            let items = &items;
            let mut block = Block::new();
            let first = start + piece * SHARE * BLOCK;
            for start in (first..end.min(first + SHARE * BLOCK)).step_by(BLOCK) {
                let count = BLOCK.min(end - start);
                // SAFETY: the list has `end` keys. This thread's caller has the lock, and waits for all helpers before
                // it runs other code. Keys and list therefore stay.
                let positions = unsafe {
                    let read = layout.read(items.0.add(start), (len - start, count), locator, &mut block, worker);
                    (read == count).then(|| block.located(locator, count))
                };
                match positions {
                    Some(positions) => sink(start, positions),
                    None => left.lock().expect("nothing panics while it holds this").push(start),
                }
            }
        });
        let mut left = left.into_inner().expect("nothing panics while it holds this");
        left.sort_unstable();
        let mut block = Block::new();
        left.into_iter().try_for_each(|start| self.block(py, locator, sink, (layout, start, end), &mut block))
    }

    fn block<L, F>(
        &self,
        py: Python<'py>,
        locator: &L,
        sink: &F,
        (layout, start, end): (Layout, usize, usize),
        block: &mut Block,
    ) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]) + Sync,
    {
        self.check_unchanged(py)?;
        let count = BLOCK.min(end - start);
        // SAFETY: there are `end` keys, held or in a list of a length just checked. No other code runs until its keys
        // are located.
        let positions = unsafe {
            let read =
                layout.read(self.items(layout).add(start), (self.len - start, count), locator, block, Worker::Caller);
            (read == count).then(|| block.located(locator, count))
        };
        match positions {
            Some(positions) => {
                sink(start, positions);
                Ok(())
            }
            None => self.one_by_one(py, locator, start, sink),
        }
    }

    /// Locate the keys of a block that may run code, fail, or need new bytes.
    #[cold]
    fn one_by_one<L, F>(&self, py: Python<'py>, locator: &L, start: usize, sink: &F) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]),
    {
        let mut positions = [0; BLOCK];
        let keys = &self.held()[start..self.len.min(start + BLOCK)];
        for (key, position) in keys.iter().zip(&mut positions) {
            *position = locator.position_of(key.bind(py))?;
        }
        sink(start, &positions[..keys.len()]);
        Ok(())
    }

    /// Return every key, held here so that no other code can take it away. No code runs between the first and the last.
    fn held(&self) -> &[Py<PyAny>] {
        self.held.get_or_init(|| match self.keys.cast::<PyList>() {
            Ok(list) => list.iter().map(Bound::unbind).collect(),
            Err(_) => self.keys.cast::<PyTuple>().expect("it is one or the other").iter().map(Bound::unbind).collect(),
        })
    }

    /// Return the first of the keys: of the held ones, or else of the list.
    fn items(&self, layout: Layout) -> *const *mut ffi::PyObject {
        match self.held.get() {
            Some(held) => held.as_ptr().cast(),
            None => layout.items(&self.keys),
        }
    }

    fn check_unchanged(&self, py: Python<'py>) -> PyResult<()> {
        let now = size_of_now(&self.keys);
        if self.held.get().is_some() || now == self.len {
            return Ok(());
        }
        Err(refusal(py, REFERENCE, "refuse_changed", (self.len, now)))
    }
}

fn size_of_now(keys: &Bound<'_, PyAny>) -> usize {
    match keys.cast::<PyList>() {
        Ok(list) => list.len(),
        Err(_) => keys.cast::<PyTuple>().map_or(0, |tuple| tuple.len()),
    }
}

/// The items of a list, shared with the helper threads.
struct Items(*const *mut ffi::PyObject);

// SAFETY: the items are only read, while the caller waits and holds the lock of the interpreter.
unsafe impl Sync for Items {}
