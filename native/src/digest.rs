//! From a key's bytes to its position, by a hash function of this crate or by one that the caller wrote in Python.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::hash::Hasher;

pub enum Digest {
    Native(Hasher),
    /// A function from bytes to an integer of so many bits.
    Python(Py<PyAny>, u32),
}

impl Digest {
    /// The function of a hasher: of one of the library's own here, by its `native_name`, of any other as it is.
    pub fn of(hasher: &Bound<'_, PyAny>) -> PyResult<Digest> {
        let native = hasher.py().import("apportion.placement.hashers")?.getattr("native_name")?.call1((hasher,))?;
        let (name, key): (Option<String>, Option<Vec<u8>>) = native.extract()?;
        if let Some(hasher) = name.and_then(|name| Hasher::named(&name, key.as_deref())) {
            return Ok(Digest::Native(hasher));
        }
        Ok(Digest::Python(hasher.getattr("digest")?.unbind(), hasher.getattr("bits")?.extract()?))
    }

    /// The hash of `data`, as the leading bits of 64.
    #[inline]
    pub fn position(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        match self {
            Digest::Native(hasher) => Ok(hasher.position(data)),
            Digest::Python(digest, bits) => asked(py, digest, *bits, data),
        }
    }
}

#[cold]
fn asked(py: Python<'_>, digest: &Py<PyAny>, bits: u32, data: &[u8]) -> PyResult<u64> {
    let hash: u64 = digest.bind(py).call1((PyBytes::new(py, data),))?.extract()?;
    Ok(hash << (64 - bits))
}
