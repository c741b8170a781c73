//! The tokens of a ring: the twin of `placement/ring_tokens.py`, whose docstring says where they stand.
//!
//! Promises: the tokens of the reference; those of a node that two rings share are taken over, not made again.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

const PREFIX: &[u8] = b"ring/1";

/// Add the first `count` tokens of a node; `position` is where a label stands.
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

/// What two rings have in common: the new index of each old node, if it has one, and the new nodes whose tokens must be
/// made. Nodes are told apart by being the same object, which those that a change leaves alone are.
pub struct Shared {
    pub index_of_old: Vec<Option<u32>>,
    pub made: Vec<u32>,
}

pub fn shared(old: &Bound<'_, PyTuple>, new: &Bound<'_, PyTuple>) -> Shared {
    let mut places: HashMap<usize, usize> =
        old.iter().enumerate().map(|(i, node)| (node.as_ptr() as usize, i)).collect();
    let mut index_of_old = vec![None; old.len()];
    let mut made = Vec::new();
    for (index, node) in new.iter().enumerate() {
        match places.remove(&(node.as_ptr() as usize)) {
            Some(place) => index_of_old[place] = Some(index as u32),
            None => made.push(index as u32),
        }
    }
    Shared { index_of_old, made }
}
