//! Difference: the ranges, the shares and the exact difference of two tables, for a plan.
//!
//! Promises: the findings of `Table`. A difference lays the cuts of both tables over each other and compares every
//! piece between two cuts. No piece is divided without need.

use std::collections::HashMap;
use std::iter::once;

use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyTuple};

use crate::calls::count;
use crate::router::{Laid, Router};
use crate::stretches::are_nodes;

const END: u128 = 1 << 64;

/// Start, end, and the index of the owner before and after.
type Change = (u64, u128, u32, u32);

/// Start, end, and the place of the range that contains the piece before and after.
type Piece = (u64, u128, usize, usize);
type NamedPiece<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, usize, usize);

/// Return the start and the owner of each range of a placement's table, both as 8 bytes little-endian. O(stretches).
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
    let (old, new) = (ranges_of(before), ranges_of(after));
    let pieces = overlaid(&old.0, &new.0, |left, right| now_of[old.1[left] as usize] != Some(new.1[right]));
    Ok(pieces.into_iter().map(|(start, end, left, right)| (start, end, old.1[left], new.1[right])).collect())
}

/// Return the ranges of a placement's table, and count them, each time.
fn ranges_of(laid: &Laid) -> (Vec<u64>, Vec<u32>) {
    let ranges = laid.stretches.ranges();
    count(ranges.0.len());
    ranges
}

/// The columns of a table that no placement has laid.
struct Columns {
    starts: Vec<u64>,
    /// All owners, range by range, and the end of each range among them.
    owners: Vec<u32>,
    ends: Vec<usize>,
}

impl Columns {
    /// Read the starts of ranges, and the indexes of the owners of each. Indexes are below `nodes`.
    fn of((starts, rows): &(Bound<'_, PyTuple>, Bound<'_, PyTuple>), nodes: usize) -> PyResult<Columns> {
        let starts: Vec<u64> = starts.iter_borrowed().map(number).collect::<PyResult<_>>()?;
        let (mut owners, mut ends) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in rows.iter_borrowed() {
            for index in row.cast::<PyTuple>()?.iter_borrowed() {
                owners.push(u32::try_from(number(index)?)?);
            }
            ends.push(owners.len());
        }
        if starts.is_empty() || starts.len() != ends.len() || !are_nodes(&owners, nodes) {
            return Err(PyValueError::new_err("each range has a row, and each owner is the index of a node"));
        }
        count(starts.len());
        Ok(Columns { starts, owners, ends })
    }

    fn row(&self, place: usize) -> &[u32] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.owners[start..self.ends[place]]
    }
}

/// Return an `int` of 64 bits. Other types that might convert are not looked at.
#[inline]
fn number(value: Borrowed<'_, '_, PyAny>) -> PyResult<u64> {
    let value = value.cast_exact::<PyInt>()?;
    // SAFETY: the value is an exact `int`. The call runs no Python code, and raises an exception if the value does not
    // fit.
    match unsafe { ffi::PyLong_AsUnsignedLongLong(value.as_ptr()) } {
        u64::MAX => PyErr::take(value.py()).map_or(Ok(u64::MAX), Err),
        number => Ok(number),
    }
}

/// Return the ranges with other owners in the new table, each with the place of its row in both. A table is the starts
/// of ranges, and rows of indexes. `now_of` is the present index of each old node, if it has one, and `nodes` the
/// present number of nodes. O(stretches of both).
#[pyfunction]
pub fn table_changes<'py>(
    py: Python<'py>,
    old: (Bound<'py, PyTuple>, Bound<'py, PyTuple>),
    new: (Bound<'py, PyTuple>, Bound<'py, PyTuple>),
    now_of: Vec<Option<u32>>,
    nodes: usize,
) -> PyResult<Vec<NamedPiece<'py>>> {
    let (before, after) = (Columns::of(&old, now_of.len())?, Columns::of(&new, nodes)?);
    let pieces = overlaid(&before.starts, &after.starts, |left, right| {
        let (was, now) = (before.row(left), after.row(right));
        was.len() != now.len() || was.iter().zip(now).any(|(&was, &now)| now_of[was as usize] != Some(now))
    });
    let end_of_all = END.into_pyobject(py)?.into_any();
    // A piece begins and ends where a range of one table begins or ends, so its number exists already.
    let at = |place: u128, left: usize, right: usize| {
        let is_here = |starts: &[u64], row: usize| starts.get(row).is_some_and(|&start| u128::from(start) == place);
        match (is_here(&before.starts, left), is_here(&after.starts, right)) {
            (true, _) => old.0.get_item(left),
            (_, true) => new.0.get_item(right),
            _ => Ok(end_of_all.clone()),
        }
    };
    let named = |(start, end, left, right): Piece| {
        Ok((at(u128::from(start), left, right)?, at(end, left + 1, right + 1)?, left, right))
    };
    pieces.into_iter().map(named).collect()
}

/// Return the pieces between two starts of either table that differ.
fn overlaid(old: &[u64], new: &[u64], differ: impl Fn(usize, usize) -> bool) -> Vec<Piece> {
    let mut found = Vec::new();
    let (mut left, mut right, mut start) = (0, 0, 0);
    loop {
        let next = [old.get(left + 1), new.get(right + 1)];
        let end = next.into_iter().flatten().min().copied();
        if differ(left, right) {
            found.push((start, end.map_or(END, u128::from), left, right));
        }
        let Some(end) = end else { return found };
        left += usize::from(next[0] == Some(&end));
        right += usize::from(next[1] == Some(&end));
        start = end;
    }
}
