//! Many keys in any container, and their positions, block by block: the twin of `placement/keys/containers.py`.
//!
//! Promises: the answers and the errors of the reference, for every container. A key with its bytes in memory is not
//! copied. The interpreter's lock is released while buffers are hashed, and kept while lists are.
//! Refuses: to decide the kind of a container, apart from plain lists and tuples. `source_of` in the reference decides
//! it.

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

/// The keys of a caller, ready to be hashed.
pub enum BulkKeys<'py> {
    Listed(Listed<'py>),
    Flat(Flat<'py>),
}

impl<'py> BulkKeys<'py> {
    /// Take a container of keys. Errors are those of the reference. O(1) for lists, tuples and buffers, O(chunks) for
    /// Arrow arrays. O(keys) where there may be nulls, and for other iterables, which are collected.
    pub fn of(keys: &Bound<'py, PyAny>) -> PyResult<Self> {
        if keys.is_exact_instance_of::<PyList>() || keys.is_exact_instance_of::<PyTuple>() {
            return Ok(BulkKeys::Listed(Listed::of(keys)));
        }
        let source = keys.py().import(REFERENCE)?.getattr("source_of")?.call1((keys,))?;
        if source.is_exact_instance_of::<PyList>() {
            return Ok(BulkKeys::Listed(Listed::of(&source)));
        }
        // The view's own type cannot be subclassed, and the stable ABI does not name it.
        let is_view = source.get_type().name()? == "memoryview";
        Ok(BulkKeys::Flat(if is_view { buffers::opened(&source)? } else { arrow::opened(&source)? }))
    }

    /// Return how many keys there are.
    pub fn len(&self) -> usize {
        match self {
            BulkKeys::Listed(listed) => listed.len(),
            BulkKeys::Flat(flat) => flat.len(),
        }
    }

    /// Locate all keys, by blocks of at most `BLOCK`. `sink` gets the place of the first key of a block, and the
    /// positions.
    ///
    /// Blocks come in any order, each place in one of them. With `threads` above 1 they come from several threads at
    /// once. The sink must not call Python: another thread may hold the interpreter's lock for it, and read a list
    /// meanwhile. An error is that of the first faulty key; by then some blocks have come and others have not. Only
    /// this thread calls a hash function written in Python.
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
