//! What a plan asks of two tables: their ranges, their shares, and their exact difference.
//!
//! Promises: what `Table` finds: a difference lays the cuts of both over each other and compares every piece between two,
//! so that none is divided without need.

use std::collections::HashMap;
use std::iter::once;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::calls::count;
use crate::router::{Laid, Router};

const END: u128 = 1 << 64;

/// Start, end, and the index of the owner before and after.
type Change = (u64, u128, u32, u32);

/// Return where each range of a placement's table starts and who owns it, both as 8 bytes little-endian. O(stretches).
#[pyfunction]
pub fn ranges<'py>(placement: &Bound<'py, Router>) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let py = placement.py();
    let (starts, owners) = ranges_of(placement.get().laid()?);
    let starts: Vec<u8> = starts.into_iter().flat_map(u64::to_le_bytes).collect();
    let owners: Vec<u8> = owners.into_iter().flat_map(|owner| u64::from(owner).to_le_bytes()).collect();
    Ok((PyBytes::new(py, &starts), PyBytes::new(py, &owners)))
}

/// Return how many positions each node of a placement owns. O(stretches).
#[pyfunction]
pub fn widths(placement: &Bound<'_, Router>) -> PyResult<Vec<u128>> {
    let laid = placement.get().laid()?;
    let (starts, owners) = ranges_of(laid);
    let mut widths = vec![0; laid.ids.len()];
    let ends = starts.iter().skip(1).map(|&start| u128::from(start)).chain(once(END));
    for ((&start, end), owner) in starts.iter().zip(ends).zip(owners) {
        widths[owner as usize] += end - u128::from(start);
    }
    Ok(widths)
}

/// Return the ranges that change owners from one placement to another. O(stretches of both).
#[pyfunction]
pub fn changes(old: &Bound<'_, Router>, new: &Bound<'_, Router>) -> PyResult<Vec<Change>> {
    let py = new.py();
    let (before, after) = (old.get().laid()?, new.get().laid()?);
    let (mut places, mut now_of) = (HashMap::new(), Vec::new());
    for (place, id) in after.ids.iter().enumerate() {
        places.insert(id.bind(py).to_cow()?, place as u32);
    }
    for id in &before.ids {
        now_of.push(places.get(&id.bind(py).to_cow()?).copied());
    }
    Ok(overlaid(ranges_of(before), ranges_of(after), &now_of))
}

/// The ranges of a placement's table, which are counted each time that they are read.
fn ranges_of(laid: &Laid) -> (Vec<u64>, Vec<u32>) {
    let ranges = laid.stretches.ranges();
    count(ranges.0.len());
    ranges
}

/// Compare every piece; `now_of` is the index that each old node has now, if it has one.
fn overlaid(old: (Vec<u64>, Vec<u32>), new: (Vec<u64>, Vec<u32>), now_of: &[Option<u32>]) -> Vec<Change> {
    let mut found = Vec::new();
    let (mut left, mut right, mut start) = (0, 0, 0);
    loop {
        let next = [old.0.get(left + 1), new.0.get(right + 1)];
        let end = next.into_iter().flatten().min().copied();
        let (was, now) = (old.1[left], new.1[right]);
        if now_of[was as usize] != Some(now) {
            found.push((start, end.map_or(END, u128::from), was, now));
        }
        let Some(end) = end else { return found };
        left += usize::from(next[0] == Some(&end));
        right += usize::from(next[1] == Some(&end));
        start = end;
    }
}
