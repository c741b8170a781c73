//! Places by owner: what fetching many keys from their nodes begins with.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answers::room;

/// Return where the places of each of `nodes` nodes end, and the places by node, in order, both as 8 bytes each.
/// `indexes` is what `route_indexes` returned. O(indexes + nodes).
#[pyfunction]
pub fn grouped<'py>(indexes: &Bound<'py, PyAny>, nodes: usize) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    match PyBuffer::<u16>::get(indexes) {
        Ok(buffer) => sorted(indexes.py(), &buffer, nodes),
        Err(_) => sorted(indexes.py(), &PyBuffer::<u32>::get(indexes)?, nodes),
    }
}

fn sorted<'py, T: Element + Into<u32>>(
    py: Python<'py>,
    indexes: &PyBuffer<T>,
    nodes: usize,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let indexes = indexes.to_vec(py)?;
    if indexes.iter().any(|&index| index.into() as usize >= nodes) {
        return Err(PyIndexError::new_err("an index beyond the last node"));
    }
    let mut ends = vec![0u64; nodes + 1];
    for &index in &indexes {
        ends[index.into() as usize + 1] += 1;
    }
    for node in 0..nodes {
        ends[node + 1] += ends[node];
    }
    let mut places = room::<u64>(indexes.len())?;
    for (place, &index) in indexes.iter().enumerate() {
        let next = &mut ends[index.into() as usize];
        places[*next as usize] = place as u64;
        *next += 1;
    }
    ends.truncate(nodes); // each start has moved up to its end
    Ok((bytes_of(py, &ends), bytes_of(py, &places)))
}

fn bytes_of<'py>(py: Python<'py>, numbers: &[u64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}
