//! Placements that compute the owner from a key's hash: the twin of `jump`, `modulo`, `kafka`, `maglev`, `rendezvous`,
//! `multiprobe` and `choose_k`. Their docstrings explain the computation.
//!
//! Promises: the owners of the reference, to the bit. Refuses: hash functions written in Python, for which a twin gains
//! nothing.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::answers::{Answers, Threads, answering};
use crate::choose_k::Tree;
use crate::hash::Hasher;
use crate::locator::Locator;
use crate::stretches::are_nodes;

/// The rule that finds an owner: the index of a node, by its place in a list of owners.
enum Rule {
    Modulo,
    Kafka,
    Jump,
    Entries,
    Rendezvous(Vec<Class>),
    MultiProbe { tokens: Vec<u64>, probes: u32 },
    ChooseK(Tree),
}

/// The nodes of one weight, and their labels, which are hashed with a key.
struct Class {
    millionths: u128,
    owners: Vec<u32>,
    labels: Vec<Vec<u8>>,
}

#[pyclass(frozen, module = "apportion._native")]
pub struct Chooser {
    ids: Vec<Py<PyString>>,
    hasher: Hasher,
    owners: Vec<u32>,
    rule: Rule,
}

answering!(Chooser, {
    /// Take the remainder of the hash.
    #[staticmethod]
    fn modulo(ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, owners: Vec<u32>) -> PyResult<Chooser> {
        Chooser::of(ids, hasher, owners, Rule::Modulo)
    }

    /// Take the remainder of the hash without its sign.
    #[staticmethod]
    fn kafka(ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, owners: Vec<u32>) -> PyResult<Chooser> {
        Chooser::of(ids, hasher, owners, Rule::Kafka)
    }

    /// Jump from bucket to bucket.
    #[staticmethod]
    fn jump(ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, owners: Vec<u32>) -> PyResult<Chooser> {
        Chooser::of(ids, hasher, owners, Rule::Jump)
    }

    /// Look into a table of entries. The leading bits of the hash are the number of the entry.
    #[staticmethod]
    fn entries(ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, owners: Vec<u32>) -> PyResult<Chooser> {
        Chooser::of(ids, hasher, owners, Rule::Entries)
    }

    /// Take the best score. A class is a weight in millionths, its nodes, and their labels.
    #[staticmethod]
    fn rendezvous(
        ids: Vec<Py<PyString>>,
        hasher: &Bound<'_, PyAny>,
        classes: Vec<(u64, Vec<u32>, Vec<Vec<u8>>)>,
    ) -> PyResult<Chooser> {
        let classes =
            classes.into_iter().map(|(weight, owners, labels)| Class { millionths: weight.into(), owners, labels });
        Chooser::of(ids, hasher, Vec::new(), Rule::Rendezvous(classes.collect()))
    }

    /// Take the probe that is nearest before a token. Tokens are sorted.
    #[staticmethod]
    fn multiprobe(
        ids: Vec<Py<PyString>>,
        hasher: &Bound<'_, PyAny>,
        owners: Vec<u32>,
        tokens: Vec<u64>,
        probes: u32,
    ) -> PyResult<Chooser> {
        Chooser::of(ids, hasher, owners, Rule::MultiProbe { tokens, probes })
    }

    /// Draw numbers until one has an owner. At least one number has an owner.
    #[staticmethod]
    fn choose_k(ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, owners: Vec<Option<u32>>) -> PyResult<Chooser> {
        let nodes: Vec<u32> = owners.iter().flatten().copied().collect();
        let tree = Tree::new(owners).filter(|_| are_nodes(&nodes, ids.len())).ok_or_else(unsound)?;
        Chooser::of(ids, hasher, Vec::new(), Rule::ChooseK(tree))
    }
});

impl Chooser {
    fn laid(&self) -> PyResult<&Chooser> {
        Ok(self)
    }

    fn of(ids: Vec<Py<PyString>>, hasher: &Bound<'_, PyAny>, owners: Vec<u32>, rule: Rule) -> PyResult<Chooser> {
        let hasher = Hasher::of(hasher)?;
        if !hasher.is_native() {
            return Err(PyValueError::new_err("the hash function has no native twin; use the reference"));
        }
        if !rule.is_sound(&owners, ids.len()) {
            return Err(unsound());
        }
        Ok(Chooser { ids, hasher, owners, rule })
    }
}

fn unsound() -> PyErr {
    PyValueError::new_err("owners are indexes of nodes, at least one, and each has the values that the rule needs")
}

impl Rule {
    /// Return whether every key has an owner, given these owners and the number of nodes.
    fn is_sound(&self, owners: &[u32], nodes: usize) -> bool {
        are_nodes(owners, nodes)
            && match self {
                Rule::Modulo | Rule::Kafka | Rule::Jump | Rule::Entries => !owners.is_empty(),
                Rule::Rendezvous(classes) => !classes.is_empty() && classes.iter().all(|class| class.is_sound(nodes)),
                Rule::MultiProbe { tokens, probes } => {
                    *probes > 0 && !tokens.is_empty() && tokens.len() == owners.len()
                }
                Rule::ChooseK(_) => true, // the tree knows its owners
            }
    }
}

impl Answers for Chooser {
    type Locator = Hasher;

    fn ids(&self) -> &[Py<PyString>] {
        &self.ids
    }

    fn locator(&self) -> &Hasher {
        &self.hasher
    }

    fn owner(&self, position: u64) -> u32 {
        let hash = position >> (64 - self.hasher.bits());
        let count = self.owners.len() as u64;
        match &self.rule {
            Rule::Modulo => self.owners[(hash % count) as usize],
            Rule::Kafka => self.owners[((hash & 0x7fff_ffff) % count) as usize],
            Rule::Jump => self.owners[bucket(hash, count as i64)],
            Rule::Entries => self.owners[((u128::from(hash) * u128::from(count)) >> 64) as usize],
            Rule::Rendezvous(classes) => best(classes, &self.hasher, hash),
            Rule::MultiProbe { tokens, probes } => self.owners[nearest(tokens, *probes, &self.hasher, hash)],
            Rule::ChooseK(tree) => tree.owner(&self.hasher, hash),
        }
    }
}

/// Source: Lamping and Veach 2014.
fn bucket(mut number: u64, buckets: i64) -> usize {
    let (mut candidate, mut jump) = (-1, 0);
    while jump < buckets {
        candidate = jump;
        number = number.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        jump = ((candidate + 1) as f64 * (2_147_483_648.0 / ((number >> 33) + 1) as f64)) as i64;
    }
    candidate as usize
}

fn best(classes: &[Class], hasher: &Hasher, hash: u64) -> u32 {
    let bests = classes.iter().map(|class| {
        let (largest, owner) = class.best(hasher, hash);
        let score = if classes.len() == 1 { 0 } else { score(largest, class.millionths) };
        (score, std::cmp::Reverse(largest), owner)
    });
    bests.min().expect("at least one class").2
}

impl Class {
    fn is_sound(&self, nodes: usize) -> bool {
        let is_labelled = !self.owners.is_empty() && self.owners.len() == self.labels.len();
        self.millionths > 0 && is_labelled && are_nodes(&self.owners, nodes)
    }

    /// Return the largest hash of any node with the key, and the first node with that hash.
    fn best(&self, hasher: &Hasher, hash: u64) -> (u64, u32) {
        let mut data = Vec::with_capacity(300);
        let hashes = self.labels.iter().map(|label| {
            data.clear();
            data.extend_from_slice(label);
            data.extend_from_slice(&hash.to_le_bytes());
            hasher.digest(&data)
        });
        let (place, largest) =
            hashes.enumerate().max_by_key(|&(place, u)| (u, std::cmp::Reverse(place))).expect("a node");
        (largest, self.owners[place])
    }
}

/// Return -log2((u + 1) / 2**64) / weight, in units that leave 64 bits below the smallest logarithm.
pub fn score(u: u64, millionths: u128) -> u128 {
    (((64 << FRACTION_BITS) - logarithm(u128::from(u) + 1)) << 64) / millionths
}

const FRACTION_BITS: u32 = 48;

/// Return log2(value) in units of 2**-48, rounded down, for 1 <= value <= 2**64. The twin of
/// `placement/shapes/log2.py`.
#[pyfunction]
pub fn log2_fixed(value: u128) -> PyResult<u128> {
    if (1..=1 << 64).contains(&value) {
        Ok(logarithm(value))
    } else {
        Err(PyValueError::new_err("the value must be in 1 .. 2**64"))
    }
}

fn logarithm(value: u128) -> u128 {
    let mut logarithm = u128::from(value.ilog2());
    let mut mantissa = (value << 62) >> logarithm;
    for _ in 0..FRACTION_BITS {
        mantissa = (mantissa * mantissa) >> 62;
        let bit = mantissa >> 63;
        mantissa >>= bit;
        logarithm = logarithm << 1 | bit;
    }
    logarithm
}

/// Return the place of the token that a probe of the key is nearest before.
fn nearest(tokens: &[u64], probes: u32, hasher: &Hasher, hash: u64) -> usize {
    let mut label = *b"multiprobe/1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    label[16..24].copy_from_slice(&hash.to_le_bytes());
    let landings = (0..probes).map(|number| {
        label[24..].copy_from_slice(&number.to_le_bytes());
        let probe = hasher.digest(&label);
        let place = tokens.partition_point(|&token| token < probe) % tokens.len();
        (tokens[place].wrapping_sub(probe), number, place)
    });
    landings.min().expect("at least one probe").2
}
