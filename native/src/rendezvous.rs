//! The preference lists of rendezvous hashing for many keys: the twin of `Rendezvous.preference_indexes`.
//!
//! Promises: the lists of the reference, if no two nodes of a list share a fault domain. There is one logarithm per
//! domain and weight, and none with a single weight.

use std::cmp::Reverse;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answers::array;
use crate::bulk::{BulkKeys, Places};
use crate::calls;
use crate::chooser::score;
use crate::hash::Hasher;
use crate::locator::Locator;

/// Score, largest hash first, index: the order of the ranking.
type Rank = (u128, Reverse<u64>, u32);

/// The nodes of one weight: their indexes, their domains, and their labels, which are hashed with a key.
struct Class {
    millionths: u128,
    owners: Vec<u32>,
    domains: Vec<u32>,
    labels: Vec<Vec<u8>>,
}

/// Return the first `count` nodes of distinct domains in each key's ranking, as indexes, key by key.
#[pyfunction]
pub fn rendezvous_lists<'py>(
    hasher: &Bound<'py, PyAny>,
    classes: Vec<(u64, Vec<u32>, Vec<Vec<u8>>)>,
    domains: Vec<u32>,
    count: usize,
    keys: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, hasher) = (keys.py(), Hasher::of(hasher)?);
    let ranker = Ranker::of(&hasher, classes, domains, count)?;
    let keys = BulkKeys::of(keys)?;
    let cells = keys.len().checked_mul(count).ok_or_else(|| PyValueError::new_err("there are too many keys"))?;
    let lists = array(py, "I", cells, |room| {
        let places = Places::of(room);
        keys.each_block(py, &hasher, 1, |start, positions| {
            let mut domains = ranker.room();
            for (place, &position) in positions.iter().enumerate() {
                let list = ranker.list(position, &mut domains);
                // SAFETY: each key is in one block, so each of its places is written once.
                unsafe { places.put((start + place) * count, list) }
            }
        })
    })?;
    calls::count(keys.len());
    Ok(lists)
}

struct Ranker<'a> {
    hasher: &'a Hasher,
    classes: Vec<Class>,
    count: usize,
    domain_count: usize,
}

impl Ranker<'_> {
    fn of(
        hasher: &Hasher,
        classes: Vec<(u64, Vec<u32>, Vec<Vec<u8>>)>,
        domains: Vec<u32>,
        count: usize,
    ) -> PyResult<Ranker<'_>> {
        let domain_count = domains.iter().max().map_or(0, |&last| last as usize + 1);
        let refused = || PyValueError::new_err("a list needs nodes of distinct domains, with labels and weights");
        if domain_count > domains.len() {
            return Err(refused());
        }
        let is_sound = |(weight, owners, labels): &(u64, Vec<u32>, Vec<Vec<u8>>)| {
            *weight > 0 && owners.len() == labels.len() && owners.iter().all(|&owner| (owner as usize) < domains.len())
        };
        let mut reached = vec![false; domain_count];
        for &owner in classes.iter().filter(|class| is_sound(class)).flat_map(|(_, owners, _)| owners) {
            reached[domains[owner as usize] as usize] = true;
        }
        let eligible = reached.iter().filter(|&&is_reached| is_reached).count();
        if !classes.iter().all(is_sound) || !(1..=eligible).contains(&count) {
            return Err(refused());
        }
        if hasher.bits() != 64 || !hasher.is_native() {
            return Err(PyValueError::new_err("the hash function has no native twin; use the reference"));
        }
        let classes = classes.into_iter().map(|(weight, owners, labels)| {
            let domains = owners.iter().map(|&owner| domains[owner as usize]).collect();
            Class { millionths: weight.into(), owners, domains, labels }
        });
        Ok(Ranker { hasher, classes: classes.collect(), count, domain_count })
    }

    /// Return the room in which the nodes of a key are ranked.
    fn room(&self) -> Room {
        let texts = self.classes.iter().flat_map(|class| &class.labels).map(|label| [label, &[0; 8][..]].concat());
        Room { texts: texts.collect(), largest: vec![None; self.domain_count], ranks: vec![None; self.domain_count] }
    }

    /// Return the list of one key.
    fn list(&self, hash: u64, room: &mut Room) -> impl ExactSizeIterator<Item = u32> {
        room.ranks.fill(None);
        let mut texts = room.texts.iter_mut();
        for class in &self.classes {
            room.largest.fill(None);
            for ((&owner, &domain), text) in class.owners.iter().zip(&class.domains).zip(&mut texts) {
                let end = text.len() - 8;
                text[end..].copy_from_slice(&hash.to_le_bytes());
                let u = self.hasher.digest(text);
                let best = &mut room.largest[domain as usize];
                // Indexes ascend in a class, so the first of equal hashes stays.
                if best.is_none_or(|(largest, _)| largest < u) {
                    *best = Some((u, owner));
                }
            }
            for (largest, rank) in room.largest.iter().zip(&mut room.ranks) {
                if let &Some((u, owner)) = largest {
                    let own = if self.classes.len() == 1 { 0 } else { score(u, class.millionths) };
                    let own: Rank = (own, Reverse(u), owner);
                    if rank.is_none_or(|other| own < other) {
                        *rank = Some(own);
                    }
                }
            }
        }
        let mut ranked: Vec<Rank> = room.ranks.iter().flatten().copied().collect();
        if self.count < ranked.len() {
            ranked.select_nth_unstable(self.count - 1);
            ranked.truncate(self.count);
        }
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, _, owner)| owner)
    }
}

/// The intermediate values of one key, kept for the next: labels followed by the key's hash, and the best so far.
struct Room {
    texts: Vec<Vec<u8>>,
    largest: Vec<Option<(u64, u32)>>,
    ranks: Vec<Option<Rank>>,
}
