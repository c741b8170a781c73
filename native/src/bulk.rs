//! Many keys in any container, and their positions, block by block: the twin of `placement/keys/containers.py`.
//!
//! Promises: the answers and the errors of the reference, for every container; no key is copied that has its bytes in
//! memory already; the lock of the interpreter is given up while buffers are hashed, and kept while lists are.
//! Refuses: to decide what a container is; `source_of` in the reference says it, but for plain lists and tuples.

mod arrow;
mod arrow_abi;
mod block;
mod buffers;
mod chunk;
mod flat;
mod layout;
mod listed;
mod places;
mod shares;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::locator::Locator;
use block::REFERENCE;
use flat::Flat;
use listed::Listed;

pub use block::BLOCK;
pub use layout::learn as learn_layout;
pub use places::Places;

/// What a caller passed as keys, ready to be hashed.
pub enum BulkKeys<'py> {
    Listed(Listed<'py>),
    Flat(Flat<'py>),
}

impl<'py> BulkKeys<'py> {
    /// Take a container of keys; an error is the reference's. O(1) for lists, tuples and buffers, O(chunks) for Arrow
    /// arrays, and O(keys) where there may be nulls and for other iterables, which are collected.
    pub fn of(keys: &Bound<'py, PyAny>) -> PyResult<Self> {
        if keys.is_exact_instance_of::<PyList>() || keys.is_exact_instance_of::<PyTuple>() {
            return Ok(BulkKeys::Listed(Listed::of(keys)));
        }
        let source = keys.py().import(REFERENCE)?.getattr("source_of")?.call1((keys,))?;
        if source.is_exact_instance_of::<PyList>() {
            return Ok(BulkKeys::Listed(Listed::of(&source)));
        }
        // The view's own type cannot be subclassed, and is not in the stable ABI by name.
        let is_view = source.get_type().name()? == "memoryview";
        Ok(BulkKeys::Flat(if is_view { buffers::opened(&source)? } else { arrow::opened(&source)? }))
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        match self {
            BulkKeys::Listed(listed) => listed.len(),
            BulkKeys::Flat(flat) => flat.len(),
        }
    }

    /// Locate all keys, by blocks of at most `BLOCK`: `sink` gets the place of the first key of a block, and the positions.
    ///
    /// Blocks come in any order, each place in one of them, and with `threads` above 1 from several threads at once. The
    /// sink must not call Python: another thread may hold the lock of the interpreter for it, and read a list meanwhile. An
    /// error is that of the first key that has one; then some blocks have come and others have not. A hash function of
    /// Python's is called in this thread alone.
    pub fn each_block<L, F>(&self, py: Python<'py>, locator: &L, threads: usize, sink: F) -> PyResult<()>
    where
        L: Locator,
        F: Fn(usize, &[u64]) + Sync,
    {
        match self {
            BulkKeys::Listed(listed) => listed.each_block(py, locator, threads, &sink),
            BulkKeys::Flat(flat) => flat.each_block(py, locator, threads, &sink),
        }
    }
}
