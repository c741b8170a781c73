//! The circle cut into stretches, and the search for the stretch that contains a position.
//!
//! Stretch i ends with the bound of cut i. The last one goes to the end of the circle. The top bits of a position say
//! between which cuts to look. There is one cut on average, where a binary search among 150 000 takes 17 steps.
//!
//! Promises: the answers of a binary search, with at most 12 bytes per bound for up to 65 536 nodes. Stretches never
//! change: a change makes new ones.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buckets::Buckets;
use crate::circle::{self, Event, Unsorted};
use crate::cuts::{Cuts, PADDING};

pub struct Stretches {
    /// In order. The last cut is repeated `PADDING` times, so that as many can always be read.
    cuts: Cuts,
    buckets: Buckets,
}

impl Stretches {
    /// Take sorted bounds, and the owners of the stretches. There is one stretch more than bounds.
    pub fn new(bounds: Vec<u64>, owners: Vec<u32>, nodes: usize) -> PyResult<Stretches> {
        match owners.split_last() {
            Some((&last, others)) if others.len() == bounds.len() && are_nodes(&owners, nodes) => {
                Ok(Stretches::closed(Cuts::of(bounds, others, nodes), last))
            }
            _ => Err(PyValueError::new_err("each stretch has one owner, and each owner is the index of a node")),
        }
    }

    /// Take the tokens of a circle.
    pub fn of_circle(tokens: Unsorted, nodes: usize) -> Stretches {
        let (bounds, owners) = tokens.laid();
        Stretches::closed_circle(Cuts::of(bounds, &owners, nodes))
    }

    fn closed_circle(cuts: Cuts) -> Stretches {
        let first = first_owner(&cuts);
        Stretches::closed(cuts, first)
    }

    fn closed(cuts: Cuts, last: u32) -> Stretches {
        let buckets = Buckets::of(&cuts);
        Stretches::with_buckets(cuts, last, buckets)
    }

    fn with_buckets(mut cuts: Cuts, last: u32, buckets: Buckets) -> Stretches {
        (0..PADDING).for_each(|_| cuts.push(u64::MAX, last));
        Stretches { cuts, buckets }
    }

    /// Return the circle with more tokens, and without the tokens of nodes that have no new index, at known places. The
    /// cost is that of a copy.
    pub fn changed(&self, index_of_old: &[Option<u32>], gone: &[usize], more: Unsorted, nodes: usize) -> Stretches {
        let (more, count) = (more.sorted(), self.bound_count());
        let events = circle::events(&self.cuts, count, index_of_old, gone, &more, |token| self.stretch(token));
        let cuts = circle::changed(&self.cuts, count, index_of_old, &events, nodes);
        if !self.buckets.fit(cuts.len()) {
            return Stretches::closed_circle(cuts);
        }
        let changes = events.iter().map(|&(place, event)| match event {
            Event::Gone => (self.cuts.bound(place), u32::MAX), // one less
            Event::Come(token, _) => (token, 1),
        });
        let (first, buckets) = (first_owner(&cuts), self.buckets.changed(&cuts, changes));
        Stretches::with_buckets(cuts, first, buckets)
    }

    /// Return the start and the owner of each range of one owner. Neighbours with one owner are joined, and stretches
    /// without a position are left out.
    pub fn ranges(&self) -> (Vec<u64>, Vec<u32>) {
        let (mut starts, mut owners) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        let begins = std::iter::once(Some(0)).chain(self.bounds().map(|bound| bound.checked_add(1)));
        for (stretch, begin) in begins.enumerate() {
            let (Some(start), owner) = (begin, self.owner(stretch)) else { break };
            let is_empty = stretch < self.bound_count() && self.cuts.bound(stretch) < start;
            if !is_empty && owners.last() != Some(&owner) {
                starts.push(start);
                owners.push(owner);
            }
        }
        (starts, owners)
    }

    /// Return how many bytes the stretches take.
    pub fn bytes(&self) -> usize {
        self.cuts.bytes() + self.buckets.bytes()
    }

    /// Return the places of the tokens of nodes that have no new index.
    pub fn gone(&self, index_of_old: &[Option<u32>]) -> Vec<usize> {
        if index_of_old.iter().all(Option::is_some) {
            return Vec::new();
        }
        let mut gone = self.cuts.gone(index_of_old);
        gone.truncate(gone.partition_point(|&place| place < self.bound_count()));
        gone
    }

    pub fn len(&self) -> usize {
        self.bound_count() + 1
    }

    pub fn bound_count(&self) -> usize {
        self.cuts.len() - PADDING
    }

    pub fn bounds(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.bound_count()).map(|place| self.cuts.bound(place))
    }

    #[inline]
    pub fn owner(&self, stretch: usize) -> u32 {
        self.cuts.owner(stretch)
    }

    /// Return the number of the stretch that contains a position: the number of bounds before the position.
    #[inline]
    pub fn stretch(&self, position: u64) -> usize {
        let low = self.buckets.start(position) as usize;
        self.cuts.near(low, position).map_or_else(|| self.crowded(low, position), |(place, _)| place)
    }

    /// Return the owner of the stretch that contains a position.
    #[inline]
    pub fn owner_of(&self, position: u64) -> u32 {
        if self.cuts.are_narrow() {
            self.narrow_owner(self.buckets.start(position), position)
        } else {
            self.owner(self.stretch(position))
        }
    }

    /// Put the owners of positions into the room, one each. All of them take each step together, so none waits for the
    /// memory of another.
    pub fn owners<const N: usize>(&self, positions: &[u64], room: &mut [u32; N]) {
        for (&position, place) in positions.iter().zip(room.iter_mut()) {
            *place = self.buckets.start(position);
            self.cuts.fetch(*place as usize);
        }
        let rooms = positions.iter().zip(room.iter_mut());
        if self.cuts.are_narrow() {
            rooms.for_each(|(&position, place)| *place = self.narrow_owner(*place, position));
        } else {
            rooms.for_each(|(&position, place)| *place = self.owner(self.stretch(position)));
        }
    }

    /// Return the owner of a position, given the place where its search begins. Owners are narrow.
    #[inline(always)]
    fn narrow_owner(&self, low: u32, position: u64) -> u32 {
        match self.cuts.near(low as usize, position) {
            Some((_, owner)) => u32::from(owner),
            None => self.owner(self.crowded(low as usize, position)),
        }
    }

    /// Return the stretch, as `stretch` does, where bounds are so close together that words do not suffice.
    #[cold]
    fn crowded(&self, mut low: usize, position: u64) -> usize {
        let mut high = self.buckets.end(position) as usize;
        while low < high {
            let middle = low.midpoint(high);
            if self.cuts.bound(middle) < position { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Return whether all are indexes of this many nodes.
pub fn are_nodes(owners: &[u32], nodes: usize) -> bool {
    owners.iter().all(|&owner| (owner as usize) < nodes)
}

/// Return the owner of the stretch after the last token of a circle.
fn first_owner(cuts: &Cuts) -> u32 {
    if cuts.len() == 0 { 0 } else { cuts.owner(0) }
}
