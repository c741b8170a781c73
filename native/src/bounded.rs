//! Loads within their caps: the twin of `filled` in `placement/bounded.py`. Its docstring explains the result.
//!
//! Promises: the owners of the reference, by the same order of the keys. Refuses: to rank nodes. If the node of a key
//! has no room, the caller names the next ones.

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::answers::room;
use crate::bulk::{BulkKeys, Places};
use crate::calls::count;
use crate::groups::indexes_in;
use crate::hash::Hasher;
use crate::key::KeyBytes;
use crate::refusal::refusal;

const REFERENCE: &str = "apportion.placement.bounded";

/// Places of keys, and the node that takes each key.
type Displaced = Vec<(usize, usize)>;

/// Return the places of the keys that their nodes have no room for, with the node that takes each, and the load of each
/// node.
#[pyfunction]
pub fn filled(
    keys: &Bound<'_, PyTuple>,
    hasher: &Bound<'_, PyAny>,
    preferred: &Bound<'_, PyAny>,
    caps: Vec<u64>,
    others: &Bound<'_, PyAny>,
) -> PyResult<(Displaced, Vec<u64>)> {
    let preferred = indexes_in(preferred, caps.len())?;
    let order = ordered(keys, &Hasher::of(hasher)?)?;
    if order.len() != preferred.len() {
        return Err(PyValueError::new_err("each key needs one preferred node"));
    }
    let (mut counts, mut displaced) = (room::<u64>(caps.len())?, Vec::new());
    for Placed { place, .. } in order {
        let mut index = preferred[place] as usize;
        if counts[index] >= caps[index] {
            index = first_with_room(&others.call1((place,))?, &counts, &caps)?;
            displaced.push((place, index));
        }
        counts[index] += 1;
    }
    count(preferred.len());
    Ok((displaced, counts))
}

/// A key, by its position and its place among the keys.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Placed {
    position: u64,
    place: usize,
}

/// Return the keys in order of their hashes, then of their bytes.
fn ordered(keys: &Bound<'_, PyTuple>, hasher: &Hasher) -> PyResult<Vec<Placed>> {
    let bulk = BulkKeys::of(keys)?;
    let mut order = room(bulk.len())?;
    let places = Places::of(&mut order);
    bulk.each_block(keys.py(), hasher, 1, |start, positions| {
        let block = positions.iter().enumerate();
        // SAFETY: each place is in one block.
        unsafe { places.put(start, block.map(|(at, &position)| Placed { position, place: start + at })) }
    })?;
    keys.py().detach(|| order.sort_unstable());
    for same in order.chunk_by_mut(|one, next| one.position == next.position) {
        if same.len() > 1 {
            sort_by_bytes(same, keys)?;
        }
    }
    Ok(order)
}

/// Sort keys of one hash by their bytes. Two keys with the same bytes are refused.
fn sort_by_bytes(same: &mut [Placed], keys: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut read = Vec::with_capacity(same.len());
    for placed in same.iter() {
        read.push((KeyBytes::of(&keys.get_item(placed.place)?)?.to_vec(), *placed));
    }
    read.sort_unstable();
    if read.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(refusal(keys.py(), REFERENCE, "refuse_repeats", (keys,)));
    }
    for (placed, (_, sorted)) in same.iter_mut().zip(read) {
        *placed = sorted;
    }
    Ok(())
}

fn first_with_room(candidates: &Bound<'_, PyAny>, counts: &[u64], caps: &[u64]) -> PyResult<usize> {
    for index in candidates.try_iter()? {
        let index: usize = index?.extract()?;
        let node = counts.get(index).zip(caps.get(index));
        let (load, cap) = node.ok_or_else(|| PyIndexError::new_err("an index is beyond the last node"))?;
        if load < cap {
            return Ok(index);
        }
    }
    Err(refusal(candidates.py(), REFERENCE, "first_with_room", (PyTuple::empty(candidates.py()), counts, caps)))
}
