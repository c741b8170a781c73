//! The functions of the module: positions of keys, and the count of answers.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bulk::{BulkKeys, Places};
use crate::hash::Hasher;
use crate::key::KeyBytes;

/// Only the holder of the interpreter's lock writes it, so a load and a store need not be one step.
static KEYS_HANDLED: AtomicU64 = AtomicU64::new(0);

/// Count keys, positions, partitions, or pieces of a table that the twin has answered. Questions of the reference on
/// the way to its own answer do not count. Tests tell the two apart by this number.
#[inline]
pub fn count(answers: usize) {
    KEYS_HANDLED.store(KEYS_HANDLED.load(Relaxed).wrapping_add(answers as u64), Relaxed);
}

/// Return how many keys, positions, partitions, or pieces of a table the twin has answered in this process. A test that
/// compares with the reference sees the number grow.
#[pyfunction]
pub fn keys_handled() -> u64 {
    KEYS_HANDLED.load(Relaxed)
}

/// Return the position of a key on the circle of 2**64. O(length).
#[pyfunction]
#[pyo3(signature = (hasher, key, secret=None))]
pub fn position(hasher: &str, key: &Bound<'_, PyAny>, secret: Option<&[u8]>) -> PyResult<u64> {
    let hasher = hasher_of(key.py(), hasher, secret)?;
    let data = KeyBytes::of(key)?;
    count(1);
    Ok(hasher.position(&data))
}

/// Return the positions of keys in their order, each as 8 bytes little-endian. O(total length).
#[pyfunction]
#[pyo3(signature = (hasher, keys, secret=None, threads=1))]
pub fn positions<'py>(
    hasher: &str,
    keys: &Bound<'py, PyAny>,
    secret: Option<&[u8]>,
    threads: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = keys.py();
    let hasher = hasher_of(py, hasher, secret)?;
    let keys = BulkKeys::of(keys)?;
    let found = PyBytes::new_with(py, keys.len().saturating_mul(8), |room| {
        // SAFETY: the slice is all of the room, which has 8 bytes for each key.
        let room = unsafe { slice::from_raw_parts_mut(room.as_mut_ptr().cast::<[u8; 8]>(), keys.len()) };
        let places = Places::of(room);
        keys.each_block(py, &hasher, threads, |start, positions| {
            // SAFETY: each place is in one block.
            unsafe { places.put(start, positions.iter().map(|position| position.to_le_bytes())) }
        })
    })?;
    count(keys.len());
    Ok(found)
}

/// Return the exclusive or of the positions of keys. The time is that of hashing, without room for answers. O(total
/// length).
#[pyfunction]
pub fn folded(hasher: &str, keys: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = keys.py();
    let hasher = hasher_of(py, hasher, None)?;
    let keys = BulkKeys::of(keys)?;
    let all = AtomicU64::new(0);
    keys.each_block(py, &hasher, 1, |_, positions| {
        all.fetch_xor(positions.iter().fold(0, |all, position| all ^ position), Relaxed);
    })?;
    count(keys.len());
    Ok(all.into_inner())
}

/// Return the hasher of a name. The reference explains a name that has none.
fn hasher_of(py: Python<'_>, name: &str, secret: Option<&[u8]>) -> PyResult<Hasher> {
    if let Some(hasher) = Hasher::named(name, secret) {
        return Ok(hasher);
    }
    py.import("apportion.placement.hashers")?.getattr("NamedHasher")?.call1((name, secret))?;
    Err(PyValueError::new_err(format!("the hash function {name} has no native twin; use the reference")))
}
