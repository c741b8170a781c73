//! The functions of the module: positions of keys, and how many keys were handled here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::hash::Hasher;
use crate::key::KeyBytes;

/// Written by whoever holds the interpreter's lock, so that a load and a store need not be one step.
static KEYS_HANDLED: AtomicU64 = AtomicU64::new(0);

/// Count keys whose answer was found here and not by the reference.
#[inline]
pub fn count(keys: usize) {
    KEYS_HANDLED.store(KEYS_HANDLED.load(Relaxed).wrapping_add(keys as u64), Relaxed);
}

/// Return how many keys this process has answered here: a test that compares with the reference sees it grow.
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
#[pyo3(signature = (hasher, keys, secret=None))]
pub fn positions<'py>(hasher: &str, keys: &Bound<'py, PyList>, secret: Option<&[u8]>) -> PyResult<Bound<'py, PyBytes>> {
    let hasher = hasher_of(keys.py(), hasher, secret)?;
    let mut found = Vec::with_capacity(8 * keys.len());
    for key in keys {
        found.extend_from_slice(&hasher.position(&KeyBytes::of(&key)?).to_le_bytes());
    }
    count(found.len() / 8);
    Ok(PyBytes::new(keys.py(), &found))
}

/// The hasher of a name; where there is none the reference says why.
fn hasher_of(py: Python<'_>, name: &str, secret: Option<&[u8]>) -> PyResult<Hasher> {
    if let Some(hasher) = Hasher::named(name, secret) {
        return Ok(hasher);
    }
    py.import("apportion.placement.hashers")?.getattr("NamedHasher")?.call1((name, secret))?;
    Err(PyValueError::new_err(format!("the hash function {name} has no native twin; use the reference")))
}
