//! CRUSH of Apache Helix, and the circle of its CrushED: the twins of `reference_lists`, `reference_draw`,
//! `reference_tokens` and `reference_hash` in balance/helix/.
//!
//! Promises: the lists and the tokens of the reference. The lengths of straws come from the reference, so the twin
//! computes no float. Refuses: words, straws and places of children that do not fit together, with an error.

mod jenkins;
mod straws;

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};

use crate::calls;
use jenkins::{hash1, hash2};
use straws::Straws;

const MOST_TRIES: usize = 10;

/// The input for one parent; see `Straws`.
#[derive(FromPyObject)]
pub struct AskedStraws {
    words: Vec<u32>,
    lengths: Vec<u32>,
    order: Vec<u32>,
}

/// The zones, and the nodes of each.
struct Tree {
    root: Straws,
    zones: Vec<Straws>,
}

/// Return the list of nodes of each partition, given the straws of the zones and the straws in each zone.
#[pyfunction]
pub fn crush_lists<'py>(
    py: Python<'py>,
    partitions: Vec<Bound<'py, PyString>>,
    replicas: usize,
    root: AskedStraws,
    zones: Vec<(AskedStraws, Vec<Bound<'py, PyAny>>)>,
) -> PyResult<Bound<'py, PyList>> {
    let mut nodes = Vec::with_capacity(zones.len());
    let mut straws = Vec::with_capacity(zones.len());
    for (asked, names) in zones {
        straws.push(asked.checked(names.len())?);
        nodes.push(names);
    }
    let tree = Tree { root: root.checked(straws.len())?, zones: straws };
    let words = partitions.iter().map(string_hash).collect::<PyResult<Vec<u32>>>()?;
    let lists = py.detach(|| words.iter().map(|&word| tree.placed(word, replicas)).collect::<Vec<_>>());
    calls::count(lists.len());
    let tuples = lists.iter().map(|list| PyTuple::new(py, list.iter().map(|&(zone, node)| &nodes[zone][node])));
    PyList::new(py, tuples.collect::<PyResult<Vec<_>>>()?)
}

/// Return Java's hash of a string.
#[pyfunction]
pub fn java_hash(text: &Bound<'_, PyString>) -> PyResult<i32> {
    calls::count(1);
    Ok(string_hash(text)?.cast_signed())
}

/// Return the children drawn for a partition's data, as places among the given children.
#[pyfunction]
pub fn draw_straws(straws: AskedStraws, data: u32, count: usize, taken: Vec<u32>) -> PyResult<Vec<u32>> {
    let children = straws.words.len();
    let drawn = straws.checked(children)?.draw(data, count, &taken);
    calls::count(1);
    Ok(drawn)
}

/// Return the tokens of a circle, sorted, and the index of the node of each, both as 4 bytes. `words` are the hashes of
/// the node names. A token of two nodes belongs to the later one.
#[pyfunction]
pub fn circle_tokens<'py>(
    py: Python<'py>,
    words: Vec<i32>,
    each: u32,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let mut circle = Vec::<(u32, u32)>::new();
    let count = words.len().saturating_mul(each as usize);
    circle.try_reserve_exact(count).map_err(|_| PyMemoryError::new_err(()))?;
    py.detach(|| {
        let of_node = |(node, &word): (usize, &i32)| {
            (0..each).map(move |number| (hash2(word.cast_unsigned(), number), node as u32))
        };
        circle.extend(words.iter().enumerate().flat_map(of_node));
        // The later node comes first, and is the one that stays.
        circle.sort_unstable_by_key(|&(token, node)| (token, u32::MAX - node));
        circle.dedup_by_key(|&mut (token, _)| token);
    });
    calls::count(words.len());
    let bytes_of = |number: fn(&(u32, u32)) -> u32| {
        PyBytes::new(py, &circle.iter().flat_map(|pair| number(pair).to_ne_bytes()).collect::<Vec<u8>>())
    };
    Ok((bytes_of(|pair| pair.0), bytes_of(|pair| pair.1)))
}

impl Tree {
    /// Return the zone of each replica, and the node in the zone.
    fn placed(&self, word: u32, replicas: usize) -> Vec<(usize, usize)> {
        let mut data = word;
        let mut found = Vec::with_capacity(replicas.min(self.zones.len()));
        let mut taken = Vec::new();
        for _ in 0..MOST_TRIES {
            for zone in self.root.draw(data, replicas - found.len(), &taken) {
                taken.push(zone);
                let zone = zone as usize;
                found.extend(self.zones[zone].draw(data, 1, &[]).into_iter().map(|node| (zone, node as usize)));
            }
            if found.len() == replicas {
                break;
            }
            data = hash1(data);
        }
        found
    }
}

impl AskedStraws {
    fn checked(self, children: usize) -> PyResult<Straws> {
        let straws = Straws::of(&self.words, &self.lengths, self.order, children);
        straws.ok_or_else(|| PyValueError::new_err("words, lengths and order do not fit together"))
    }
}

/// Return Java's hash of a string, as 32 bits.
fn string_hash(text: &Bound<'_, PyString>) -> PyResult<u32> {
    let text = text.to_str()?;
    Ok(text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit))))
}
