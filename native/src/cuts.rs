//! Cuts: the ends of stretches and their owners, packed so that a search finds the owner in the line that it compared.
//!
//! A cut is one word: the first 48 bits of its bound, then the last 16 bits of its owner's index. The rest of the bound
//! is apart, and is read only where the first 48 bits do not decide. The rest of the owner is apart too, if there are
//! more than 65 536 nodes.
//!
//! Promises: bounds and owners as they were put in. 10 bytes per cut, or 12.

use std::ops::Range;

use crate::fetch::fetch;

const LOW_BITS: u32 = 16;
const LOW: u64 = (1 << LOW_BITS) - 1;

/// The number of cuts that are compared at once. As many may stand after the last one, so that all can always be read.
pub const PADDING: usize = 4;

/// The number of cuts in 256 KiB. This is half of the cache that a core has for itself on most servers.
const AT_HAND: usize = 1 << 15;

/// The most nodes for which owners fit into a word.
pub const NARROW_NODES: usize = 1 << LOW_BITS;

pub struct Cuts {
    words: Vec<u64>,
    low_bounds: Vec<u16>,
    /// None where all owners fit into the words.
    high_owners: Option<Vec<u16>>,
}

impl Cuts {
    /// Return no cuts yet, with room for this many.
    pub fn with_room(count: usize, nodes: usize) -> Cuts {
        let high_owners = (nodes > NARROW_NODES).then(|| Vec::with_capacity(count));
        Cuts { words: Vec::with_capacity(count), low_bounds: Vec::with_capacity(count), high_owners }
    }

    /// Take all bounds, with the owners of the stretches that they end. The bounds become the words in place.
    pub fn of(bounds: Vec<u64>, owners: &[u32], nodes: usize) -> Cuts {
        let low_bounds = with_padding(bounds.iter().map(|&bound| bound as u16));
        let high_owners =
            (nodes > NARROW_NODES).then(|| with_padding(owners.iter().map(|&owner| (owner >> LOW_BITS) as u16)));
        let mut words = bounds;
        words.iter_mut().zip(owners).for_each(|(word, &owner)| *word = packed(*word, owner));
        Cuts { words, low_bounds, high_owners }
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    #[inline]
    pub fn bound(&self, place: usize) -> u64 {
        self.words[place] & !LOW | u64::from(self.low_bounds[place])
    }

    #[inline]
    pub fn owner(&self, place: usize) -> u32 {
        let low = (self.words[place] & LOW) as u32;
        self.high_owners.as_ref().map_or(low, |high| low | u32::from(high[place]) << LOW_BITS)
    }

    #[inline]
    pub fn push(&mut self, bound: u64, owner: u32) {
        self.words.push(packed(bound, owner));
        self.low_bounds.push(bound as u16);
        if let Some(high) = &mut self.high_owners {
            high.push((owner >> LOW_BITS) as u16);
        }
    }

    /// Append some cuts of another value. `now` has the new indexes of its owners, or is none if all keep theirs.
    pub fn extend(&mut self, other: &Cuts, places: Range<usize>, now: Option<&[u32]>) {
        if self.high_owners.is_some() || other.high_owners.is_some() {
            for place in places {
                let owner = other.owner(place);
                self.push(other.bound(place), now.map_or(owner, |now| now[owner as usize]));
            }
            return;
        }
        self.low_bounds.extend_from_slice(&other.low_bounds[places.clone()]);
        let words = &other.words[places];
        match now {
            None => self.words.extend_from_slice(words),
            Some(now) => {
                self.words.extend(words.iter().map(|word| word & !LOW | u64::from(now[(word & LOW) as usize])))
            }
        }
    }

    /// Return the first cut from a place on that does not end before a position, as its place and the last bits of its
    /// owner. None if the cut is not near or the words do not decide.
    #[inline(always)]
    pub fn near(&self, place: usize, position: u64) -> Option<(usize, u16)> {
        let near: &[u64; PADDING] = self.words[place..place + PADDING].try_into().expect("there is a padding");
        let start = position & !LOW;
        let before: usize = near.iter().map(|&word| usize::from(word < start)).sum();
        let word = *near.get(before)?;
        (word ^ position > LOW).then_some((place + before, word as u16))
    }

    /// Return whether the words have all bits of the owners.
    #[inline]
    pub fn are_narrow(&self) -> bool {
        self.high_owners.is_none()
    }

    /// Fetch the cuts at a place, if there are too many for the cache.
    #[inline(always)]
    pub fn fetch(&self, place: usize) {
        if self.words.len() > AT_HAND {
            fetch(self.words.as_ptr().wrapping_add(place));
        }
    }

    /// Return the first bits of the bounds from a place on: the bits that `shift` leaves.
    #[inline]
    pub fn tops(&self, place: usize, shift: u32) -> impl Iterator<Item = usize> + '_ {
        debug_assert!(shift >= LOW_BITS);
        self.words[place..].iter().map(move |word| (word >> shift) as usize)
    }

    /// Return the places of the cuts of nodes that have no new index. If these nodes are few, blocks without them are
    /// skipped.
    pub fn gone(&self, index_of_old: &[Option<u32>]) -> Vec<usize> {
        let nodes: Vec<u32> =
            (0..).zip(index_of_old).filter(|(_, index)| index.is_none()).map(|(node, _)| node).collect();
        let mut found = Vec::new();
        for (block, words) in self.words.chunks(BLOCK).enumerate() {
            let has = |node: u32| words.iter().fold(false, |has, &word| has | (word as u16 == node as u16));
            if nodes.len() > FEW_NODES || nodes.iter().any(|&node| has(node)) {
                let places = block * BLOCK..block * BLOCK + words.len();
                found.extend(places.filter(|&place| index_of_old[self.owner(place) as usize].is_none()));
            }
        }
        found
    }

    /// Return how many bytes the cuts take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
            + size_of_val(&self.low_bounds[..])
            + self.high_owners.as_ref().map_or(0, |high| size_of_val(&high[..]))
    }
}

#[inline]
fn packed(bound: u64, owner: u32) -> u64 {
    bound & !LOW | u64::from(owner) & LOW
}

/// Return numbers, with room for those that close a table.
fn with_padding(numbers: impl ExactSizeIterator<Item = u16>) -> Vec<u16> {
    let mut found = Vec::with_capacity(numbers.len() + PADDING);
    found.extend(numbers);
    found
}

/// The cuts that are compared together, and the most nodes that are searched one by one.
const BLOCK: usize = 64;
const FEW_NODES: usize = 4;
