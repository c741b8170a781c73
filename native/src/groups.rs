//! Places by owner: the first step of fetching many keys from their nodes.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::answers::room;
use crate::calls::count;

/// Return where the places of each of `nodes` nodes end, and the places by node, in order, both as 8 bytes each.
/// `indexes` is a result of `route_indexes`. O(indexes + nodes).
#[pyfunction]
pub fn grouped<'py>(indexes: &Bound<'py, PyAny>, nodes: usize) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let py = indexes.py();
    let indexes = indexes_in(indexes, nodes)?;
    let mut ends = room::<u64>(nodes.saturating_add(1))?;
    for &index in &indexes {
        ends[index as usize + 1] += 1;
    }
    for node in 0..nodes {
        ends[node + 1] += ends[node];
    }
    let mut places = room::<u64>(indexes.len())?;
    for (place, &index) in indexes.iter().enumerate() {
        let next = &mut ends[index as usize];
        places[*next as usize] = place as u64;
        *next += 1;
    }
    count(places.len());
    ends.truncate(nodes); // each start has moved up to its end
    Ok((bytes_of(py, &ends), bytes_of(py, &places)))
}

/// Return the indexes from the `route_indexes` of any placement. An index beyond the last node is an error.
pub fn indexes_in(indexes: &Bound<'_, PyAny>, nodes: usize) -> PyResult<Vec<u32>> {
    let py = indexes.py();
    let found: Vec<u32> = if let Ok(narrow) = PyBuffer::<u16>::get(indexes) {
        narrow.to_vec(py)?.into_iter().map(u32::from).collect()
    } else if let Ok(wide) = PyBuffer::<u32>::get(indexes) {
        wide.to_vec(py)?
    } else {
        indexes.try_iter()?.map(|index| index?.extract()).collect::<PyResult<_>>()?
    };
    if found.iter().any(|&index| index as usize >= nodes) {
        return Err(PyIndexError::new_err("an index is beyond the last node"));
    }
    Ok(found)
}

fn bytes_of<'py>(py: Python<'py>, numbers: &[u64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}
