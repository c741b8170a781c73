//! Circles of tokens: a position belongs to the first token at or after it. Positions after the last token belong to
//! the first.
//!
//! A token of two nodes is there twice, the smaller index first. A search for the first token at or after a position
//! finds that one. The other remains when the node of the first one leaves.

use crate::buckets::shift_for;
use crate::cuts::{Cuts, PADDING};

/// Tokens of several nodes, not sorted: node after node, with the index and the number of tokens of each.
#[derive(Default)]
pub struct Unsorted {
    pub tokens: Vec<u64>,
    pub nodes: Vec<(u32, usize)>,
}

impl Unsorted {
    fn owned(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        let owners = self.nodes.iter().flat_map(|&(index, count)| std::iter::repeat_n(index, count));
        self.tokens.iter().copied().zip(owners)
    }

    /// Return the tokens with their owners, sorted. Meant for the few tokens of a change.
    pub fn sorted(&self) -> Vec<(u64, u32)> {
        let mut tokens: Vec<_> = self.owned().collect();
        tokens.sort_unstable();
        tokens
    }

    /// Return the tokens sorted, and the owners of the stretches that they end.
    ///
    /// Hashes are spread evenly: a token in the bucket of its top bits is nearly in place.
    pub fn laid(self) -> (Vec<u64>, Vec<u32>) {
        let shift = shift_for(self.tokens.len());
        let mut starts = vec![0u32; (1 << (64 - shift)) + 1];
        for token in &self.tokens {
            starts[(token >> shift) as usize] += 1;
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let mut bounds = Vec::with_capacity(self.tokens.len() + PADDING);
        bounds.resize(self.tokens.len(), 0);
        let mut owners = vec![0; self.tokens.len()];
        for (token, owner) in self.owned() {
            let place = &mut starts[(token >> shift) as usize];
            *place -= 1;
            bounds[*place as usize] = token;
            owners[*place as usize] = owner;
        }
        for ends in starts.windows(2) {
            sort_pairs(&mut bounds, &mut owners, ends[0] as usize, ends[1] as usize);
        }
        (bounds, owners)
    }
}

/// An event of a change at a place in the circle: the token there goes, or a new token comes before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    Gone,
    Come(u64, u32),
}

/// Return the events of a change to the first `count` cuts, in order. Owners without a new index are gone, and so are
/// their tokens, at the places `gone`. `place_of` returns how many tokens lie before a position.
pub fn events(
    cuts: &Cuts,
    count: usize,
    index: &[Option<u32>],
    gone: &[usize],
    more: &[(u64, u32)],
    place_of: impl Fn(u64) -> usize,
) -> Vec<(usize, Event)> {
    let mut found: Vec<_> = more
        .iter()
        .map(|&(token, owner)| {
            // Among equal tokens the smaller index comes first.
            let near = place_of(token);
            let equal = (near..count).take_while(|&place| cuts.bound(place) == token);
            let index_of = |place: &usize| index[cuts.owner(*place) as usize];
            let before = equal.take_while(|place| index_of(place).is_none_or(|other| other < owner)).count();
            (near + before, Event::Come(token, owner))
        })
        .collect();
    if !gone.is_empty() {
        found.extend(gone.iter().map(|&place| (place, Event::Gone)));
        found.sort_by_key(|&(place, event)| (place, event == Event::Gone)); // stable: new tokens keep their order
    }
    found
}

/// Return the circle of the first `count` cuts after a change. Cuts between two events are copied as they are.
pub fn changed(cuts: &Cuts, count: usize, index: &[Option<u32>], events: &[(usize, Event)], nodes: usize) -> Cuts {
    let all_stay = (0..).zip(index).all(|(place, index)| index.is_none_or(|index| index == place));
    let now: Option<Vec<u32>> = (!all_stay).then(|| index.iter().map(|index| index.unwrap_or(0)).collect());
    let mut found = Cuts::with_room(count + events.len() + PADDING, nodes);
    let mut done = 0;
    for &(place, event) in events {
        found.extend(cuts, done..place, now.as_deref());
        done = place;
        match event {
            Event::Gone => done += 1,
            Event::Come(token, owner) => found.push(token, owner),
        }
    }
    found.extend(cuts, done..count, now.as_deref());
    found
}

/// The most neighbours that are sorted by insertion.
const FEW: usize = 32;

/// Sort the tokens of a bucket. They are few unless the hash crowds them.
fn sort_pairs(bounds: &mut [u64], owners: &mut [u32], from: usize, to: usize) {
    if to - from > FEW {
        let mut pairs: Vec<_> = bounds[from..to].iter().copied().zip(owners[from..to].iter().copied()).collect();
        pairs.sort_unstable();
        for (place, (bound, owner)) in (from..to).zip(pairs) {
            (bounds[place], owners[place]) = (bound, owner);
        }
        return;
    }
    for next in from + 1..to {
        let mut place = next;
        while place > from && (bounds[place - 1], owners[place - 1]) > (bounds[place], owners[place]) {
            bounds.swap(place - 1, place);
            owners.swap(place - 1, place);
            place -= 1;
        }
    }
}
