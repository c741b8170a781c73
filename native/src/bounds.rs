//! Boundaries in order, and the search for the range of a key: the number of boundaries at or before the key.
//!
//! A key is compared as a word. An integer is its own word. The word of bytes is the first eight of them after the
//! prefix that all boundaries share. The other bytes count only where words are equal. The keys of a block take each
//! step of the search together, so no key waits for the memory of another.
//!
//! Promises: the numbers and the errors of the reference in `placement/shapes/range_router.py`.

use std::cmp::Ordering;
use std::hint::select_unpredictable;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::bulk::BLOCK;
use crate::key::KeyBytes;
use crate::locator::Locator;
use crate::refusal::refusal;

const REFERENCE: &str = "apportion.placement.shapes.range_router";
const POSITION: &str = "ordered_position";

/// The sign bit, 2**63. Adding it to an int makes positions start at 0.
const SIGN: u64 = 1 << 63;

/// Boundaries in ascending order, each of them once.
pub enum Bounds {
    /// The positions of ints.
    Ints(Vec<u64>),
    Texts(Texts),
}

/// Boundaries of bytes.
pub struct Texts {
    /// The prefix that all of them share.
    shared: Vec<u8>,
    /// The first eight bytes after the prefix of each, as one number. NULs stand for missing bytes.
    words: Vec<u64>,
    /// The bytes after each prefix, one after the other, and the end of each.
    rests: Vec<u8>,
    ends: Vec<usize>,
}

impl Bounds {
    /// Take positions of ints, or else bytes.
    pub fn of(bounds: &Bound<'_, PyTuple>, are_ints: bool) -> PyResult<Bounds> {
        let (bounds, ascend) = if are_ints {
            let positions: Vec<u64> = bounds.extract()?;
            let ascend = positions.is_sorted_by(|left, right| left < right);
            (Bounds::Ints(positions), ascend)
        } else {
            let held = bounds.iter().map(|bound| Ok(bound.cast_into::<PyBytes>()?)).collect::<PyResult<Vec<_>>>()?;
            let datas: Vec<&[u8]> = held.iter().map(|bound| bound.as_bytes()).collect();
            (Bounds::Texts(Texts::of(&datas)), datas.is_sorted_by(|left, right| left < right))
        };
        if ascend { Ok(bounds) } else { Err(PyValueError::new_err("boundaries must ascend, each of them once")) }
    }

    pub fn len(&self) -> usize {
        match self {
            Bounds::Ints(positions) => positions.len(),
            Bounds::Texts(texts) => texts.words.len(),
        }
    }

    /// Return how many bytes the boundaries take.
    pub fn bytes(&self) -> usize {
        match self {
            Bounds::Ints(positions) => size_of_val(&positions[..]),
            Bounds::Texts(texts) => {
                texts.shared.len() + texts.rests.len() + size_of_val(&texts.words[..]) + size_of_val(&texts.ends[..])
            }
        }
    }

    /// Return how many boundaries are at or before the bytes of a key.
    fn find(&self, data: &[u8]) -> u64 {
        let found = match self {
            Bounds::Ints(positions) => {
                let position = position_of_int(data);
                positions.partition_point(|&bound| bound <= position)
            }
            Bounds::Texts(texts) => texts.find(data),
        };
        found as u64
    }

    /// Ask the reference for the position of a key that is not plain, and return its range.
    #[cold]
    fn asked(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let are_ints = self.takes_numbers();
        let position = key.py().import(REFERENCE)?.getattr(POSITION)?.call1((key, are_ints))?;
        match self {
            Bounds::Ints(positions) => {
                let position: u64 = position.extract()?;
                Ok(positions.partition_point(|&bound| bound <= position) as u64)
            }
            Bounds::Texts(_) => Ok(self.find(position.cast::<PyBytes>()?.as_bytes())),
        }
    }
}

impl Locator for Bounds {
    #[inline]
    fn takes_bytes(&self) -> bool {
        matches!(self, Bounds::Texts(_))
    }

    #[inline]
    fn takes_numbers(&self) -> bool {
        matches!(self, Bounds::Ints(_))
    }

    fn is_native(&self) -> bool {
        true
    }

    fn locate(&self, keys: impl Iterator<Item: AsRef<[u8]>> + Clone, room: &mut [u64]) {
        match self {
            Bounds::Ints(positions) => {
                let mut wanted = [0; BLOCK];
                for (key, wanted) in keys.zip(&mut wanted[..room.len()]) {
                    *wanted = position_of_int(key.as_ref());
                }
                count_before(positions, &wanted, room, |bound, position| bound <= position);
            }
            Bounds::Texts(texts) => texts.locate(keys, room),
        }
    }

    fn position_with(&self, _py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        Ok(self.find(data))
    }

    #[inline]
    fn position_of(&self, key: &Bound<'_, PyAny>) -> PyResult<u64> {
        let is_plain = match self {
            Bounds::Ints(_) => key.is_exact_instance_of::<PyInt>(),
            Bounds::Texts(_) => key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyBytes>(),
        };
        if is_plain { Ok(self.find(&KeyBytes::of(key)?)) } else { self.asked(key) }
    }

    fn refusal<'py>(&self, py: Python<'py>, key: Bound<'py, PyAny>) -> PyErr {
        refusal(py, REFERENCE, POSITION, (key, self.takes_numbers()))
    }
}

impl Texts {
    fn of(bounds: &[&[u8]]) -> Texts {
        let (first, last) = (bounds.first().copied().unwrap_or_default(), bounds.last().copied().unwrap_or_default());
        // Boundaries ascend: a prefix of the first and the last is a prefix of all.
        let shared = first.iter().zip(last).take_while(|(left, right)| left == right).count();
        let mut texts = Texts { shared: first[..shared].to_vec(), words: vec![], rests: vec![], ends: vec![] };
        for rest in bounds.iter().map(|bound| bound.get(shared..).unwrap_or_default()) {
            texts.words.push(word_of(rest));
            texts.rests.extend_from_slice(rest);
            texts.ends.push(texts.rests.len());
        }
        texts
    }

    fn find(&self, data: &[u8]) -> usize {
        match self.side(data) {
            Ordering::Less => 0,
            Ordering::Greater => self.words.len(),
            Ordering::Equal => {
                let rest = &data[self.shared.len()..];
                let word = word_of(rest);
                self.among_equals(self.words.partition_point(|&bound| bound < word), word, rest)
            }
        }
    }

    fn locate(&self, keys: impl Iterator<Item: AsRef<[u8]>> + Clone, room: &mut [u64]) {
        let mut wanted = [0; BLOCK];
        let mut sides = [Ordering::Equal; BLOCK];
        for (key, (wanted, side)) in keys.clone().zip(wanted.iter_mut().zip(&mut sides)) {
            *side = self.side(key.as_ref());
            if *side == Ordering::Equal {
                *wanted = word_of(&key.as_ref()[self.shared.len()..]);
            }
        }
        count_before(&self.words, &wanted, room, |bound, word| bound < word);
        for (key, (found, (&word, side))) in keys.zip(room.iter_mut().zip(wanted.iter().zip(sides))) {
            *found = match side {
                Ordering::Less => 0,
                Ordering::Greater => self.words.len() as u64,
                Ordering::Equal => self.among_equals(*found as usize, word, &key.as_ref()[self.shared.len()..]) as u64,
            };
        }
    }

    /// Compare a key with the shared prefix: before it, after it, or equal if the key begins with it.
    #[inline]
    fn side(&self, key: &[u8]) -> Ordering {
        if key.starts_with(&self.shared) { Ordering::Equal } else { key.cmp(&self.shared) }
    }

    /// Return how many boundaries are at or before a key, of which `smaller` have a smaller word.
    #[inline]
    fn among_equals(&self, smaller: usize, word: u64, rest: &[u8]) -> usize {
        if self.words.get(smaller) == Some(&word) { self.compared(smaller, word, rest) } else { smaller }
    }

    fn compared(&self, mut low: usize, word: u64, rest: &[u8]) -> usize {
        let mut high = low + self.words[low..].partition_point(|&bound| bound == word);
        while low < high {
            let middle = low.midpoint(high);
            if self.rest(middle) <= rest { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn rest(&self, place: usize) -> &[u8] {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.rests[start..self.ends[place]]
    }
}

/// Return the position of an int, given the 8 bytes of its key.
#[inline(always)]
fn position_of_int(data: &[u8]) -> u64 {
    data.first_chunk().map_or(0, |&bytes| u64::from_le_bytes(bytes) ^ SIGN)
}

/// Return the first eight bytes as a number in the same order. NULs stand for missing bytes.
#[inline(always)]
fn word_of(data: &[u8]) -> u64 {
    if let Some(&bytes) = data.first_chunk() {
        return u64::from_be_bytes(bytes);
    }
    // The two halves overlap: the bytes in both are the same.
    let missing = 8 * (8 - data.len()) as u32;
    if let (Some(&first), Some(&last)) = (data.first_chunk(), data.last_chunk()) {
        return u64::from(u32::from_be_bytes(first)) << 32 | u64::from(u32::from_be_bytes(last)) << missing;
    }
    let letters = data.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    if data.is_empty() { 0 } else { letters << missing }
}

/// Put into the room how many of the sorted words are before each wanted one. All of them take each step together.
#[inline(always)]
fn count_before(words: &[u64], wanted: &[u64; BLOCK], room: &mut [u64], is_before: impl Fn(u64, u64) -> bool) {
    room.fill(0);
    let mut size = words.len();
    while size > 1 {
        let half = size / 2;
        for (low, &wanted) in room.iter_mut().zip(wanted) {
            let beyond = *low + half as u64;
            *low = select_unpredictable(is_before(words[beyond as usize - 1], wanted), beyond, *low);
        }
        size -= half;
    }
    if size == 1 {
        for (low, &wanted) in room.iter_mut().zip(wanted) {
            *low += u64::from(is_before(words[*low as usize], wanted));
        }
    }
}
