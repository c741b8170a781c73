//! The tokens of a ring: the twin of `placement/shapes/ring_tokens.py`. Its docstring says where tokens are.
//!
//! Promises: the tokens of the reference. The tokens of a node that two rings share are copied, not computed again.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

const PREFIX: &[u8] = b"ring/1";

/// Add the first `count` tokens of a node. `position` returns the position of a label.
pub fn add_tokens(
    tokens: &mut Vec<u64>,
    id: &[u8],
    count: u32,
    position: impl Fn(&[u8]) -> PyResult<u64>,
) -> PyResult<()> {
    let mut label = [PREFIX, &(id.len() as u32).to_le_bytes(), id, &[0; 4]].concat();
    let number_at = label.len() - 4;
    for number in 0..count {
        label[number_at..].copy_from_slice(&number.to_le_bytes());
        tokens.push(position(&label)?);
    }
    Ok(())
}

/// The common part of two rings: the new index of each old node, if it has one, and the new nodes that need tokens. A
/// node is the same if it is the same object. A change keeps the objects of all other nodes.
pub struct Shared {
    pub index_of_old: Vec<Option<u32>>,
    pub made: Vec<u32>,
}

pub fn shared(old: &Bound<'_, PyTuple>, new: &Bound<'_, PyTuple>) -> PyResult<Shared> {
    let (mut index_of_old, mut made) = (vec![None; old.len()], Vec::new());
    let mut place = 0;
    // Both are in order of their ids. The ids are read only where the nodes differ.
    for (index, node) in (0..).zip(new.iter_borrowed()) {
        while place < old.len() && !old.get_borrowed_item(place)?.is(node) && is_before(&old.get_item(place)?, &node)? {
            place += 1;
        }
        if place < old.len() && old.get_borrowed_item(place)?.is(node) {
            index_of_old[place] = Some(index);
            place += 1;
        } else {
            made.push(index);
        }
    }
    Ok(Shared { index_of_old, made })
}

/// Return whether a node stands before another in every topology.
fn is_before(node: &Bound<'_, PyAny>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
    node.getattr("id")?.lt(other.getattr("id")?)
}
