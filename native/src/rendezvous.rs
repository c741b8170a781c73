//! The preference lists of rendezvous hashing for many keys: the twin of `Rendezvous.preference_indexes`.
//!
//! Promises: the lists of the reference, if no two nodes of a list share a fault domain. There is one logarithm per
//! weight and place in the list, and none with a single weight.

use std::cmp::Reverse;
use std::collections::HashSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::answers::{Threads, array};
use crate::bulk::{BulkKeys, Places};
use crate::calls;
use crate::chooser::score;
use crate::hash::Hasher;
use crate::labels::Labels;
use crate::locator::Locator;

/// Score, largest hash first, index: the order of the ranking. The domain comes after it.
type Rank = (u128, Reverse<u64>, u32, u32);

/// The nodes of one weight: their indexes, ascending, their domains, and their labels, which are hashed with a key.
struct Class<'a> {
    millionths: u128,
    nodes: Vec<(u32, u32)>,
    labels: Labels<'a>,
    domain_count: usize,
}

/// Return the first `count` nodes of distinct domains in each key's ranking, as indexes, key by key.
#[pyfunction]
#[pyo3(
    signature = (hasher, classes, domains, count, keys, threads=Threads::ONE),
    text_signature = "(hasher, classes, domains, count, keys, threads=1)"
)]
pub fn rendezvous_lists<'py>(
    hasher: &Bound<'py, PyAny>,
    classes: Vec<(u64, Vec<u32>, Vec<Vec<u8>>)>,
    domains: Vec<u32>,
    count: usize,
    keys: &Bound<'py, PyAny>,
    threads: Threads,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, hasher) = (keys.py(), Hasher::of(hasher)?);
    let ranker = Ranker::of(&hasher, classes, domains, count)?;
    let keys = BulkKeys::of(keys)?;
    let cells = keys.len().checked_mul(count).ok_or_else(|| PyValueError::new_err("there are too many keys"))?;
    let lists = array(py, "I", cells, |room| {
        let places = Places::of(room);
        keys.each_block(py, &hasher, threads.count(), |start, positions| {
            let mut ranks = Vec::new();
            for (place, &position) in positions.iter().enumerate() {
                let list = ranker.list(position, &mut ranks);
                // SAFETY: each key is in one block, so each of its places is written once.
                unsafe { places.put((start + place) * count, list) }
            }
        })
    })?;
    calls::count(keys.len());
    Ok(lists)
}

struct Ranker<'a> {
    classes: Vec<Class<'a>>,
    count: usize,
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
            let nodes: Vec<_> = owners.into_iter().map(|owner| (owner, domains[owner as usize])).collect();
            let domain_count = nodes.iter().map(|&(_, domain)| domain).collect::<HashSet<_>>().len();
            Class { millionths: weight.into(), nodes, labels: Labels::of(hasher, labels), domain_count }
        });
        Ok(Ranker { classes: classes.collect(), count })
    }

    /// Return the list of one key. `ranks` is room for the best nodes.
    fn list<'r>(&self, hash: u64, ranks: &'r mut Vec<Rank>) -> impl ExactSizeIterator<Item = u32> + use<'r> {
        ranks.clear();
        let mut best = Best { count: 0, is_shared: false, least: 0, found: Vec::with_capacity(self.count + 1) };
        for class in &self.classes {
            // A node behind so many domains of its weight is behind them in the ranking, too.
            best.restart(self.count.min(class.domain_count), class.domain_count < class.nodes.len());
            class.labels.each(hash, |place, u| {
                if best.least <= u {
                    best.offer(u, class.nodes[place]);
                }
            });
            ranks.extend(best.found.iter().map(|&(u, owner, domain)| {
                let score = if self.classes.len() == 1 { 0 } else { score(u.0, class.millionths) };
                (score, u, owner, domain)
            }));
        }
        if self.classes.len() > 1 {
            self.merge(ranks);
        }
        ranks.iter().map(|&(_, _, owner, _)| owner)
    }

    /// Keep the best of each domain, in order.
    fn merge(&self, ranks: &mut Vec<Rank>) {
        ranks.sort_unstable();
        let mut kept = 0;
        for place in 0..ranks.len() {
            let rank = ranks[place];
            if kept < self.count && ranks[..kept].iter().all(|other| other.3 != rank.3) {
                ranks[kept] = rank;
                kept += 1;
            }
        }
        ranks.truncate(kept);
    }
}

/// The first `count` nodes of distinct domains so far, with their hashes and domains. A hash below `least` is behind
/// them all. `is_shared` says that some nodes share a domain.
struct Best {
    count: usize,
    is_shared: bool,
    least: u64,
    found: Vec<(Reverse<u64>, u32, u32)>,
}

impl Best {
    fn restart(&mut self, count: usize, is_shared: bool) {
        (self.count, self.is_shared, self.least) = (count, is_shared, 0);
        self.found.clear();
    }

    // Few nodes come so far. Apart from the loop, this leaves the loop its registers.
    #[cold]
    fn offer(&mut self, u: u64, (owner, domain): (u32, u32)) {
        let node = (Reverse(u), owner, domain);
        let domains = if self.is_shared { &self.found[..] } else { &[] };
        let earlier = domains.iter().position(|&(_, _, other)| other == domain);
        match earlier {
            Some(other) if self.found[other] < node => return,
            Some(other) => drop(self.found.remove(other)),
            None => {}
        }
        self.found.insert(self.found.partition_point(|other| other < &node), node);
        self.found.truncate(self.count);
        self.least = if self.found.len() < self.count { 0 } else { self.found[self.count - 1].0.0 };
    }
}
