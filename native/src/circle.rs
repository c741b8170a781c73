//! Circles of tokens: a position belongs to the first token at or after it, and what lies after the last to the first.
//!
//! A token that two nodes have stands twice, the smaller index first: whoever looks for the first at or after a position
//! finds that one, and the other is still there when the first one's node leaves.

use crate::stretches::{PADDING, shift_for};

/// Tokens of several nodes, not sorted: node after node, with the index of each and how many tokens it has.
#[derive(Default)]
pub struct Unsorted {
    pub tokens: Vec<u64>,
    pub nodes: Vec<(u32, usize)>,
}

impl Unsorted {
    fn owners(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().flat_map(|&(index, count)| std::iter::repeat_n(index, count))
    }

    /// The tokens with their owners, sorted; for the few that a change brings.
    pub fn sorted(&self) -> Vec<(u64, u32)> {
        let mut tokens: Vec<_> = self.tokens.iter().copied().zip(self.owners()).collect();
        tokens.sort_unstable();
        tokens
    }

    /// The tokens sorted, and the owners of the stretches that they end.
    ///
    /// Hashes are spread evenly: a token that stands in the bucket of its top bits is nearly in place.
    pub fn laid<Owner: Copy + Default + Ord>(self, narrow: impl Fn(u32) -> Owner) -> (Vec<u64>, Vec<Owner>) {
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
        let mut owners = vec![Owner::default(); self.tokens.len() + 1];
        for (&token, owner) in self.tokens.iter().zip(self.owners()) {
            let place = &mut starts[(token >> shift) as usize];
            *place -= 1;
            bounds[*place as usize] = token;
            owners[*place as usize] = narrow(owner);
        }
        for ends in starts.windows(2) {
            sort_pairs(&mut bounds, &mut owners, ends[0] as usize, ends[1] as usize);
        }
        owners[bounds.len()] = owners[0];
        (bounds, owners)
    }
}

/// What a change brings: the places in the circle before which a new token comes, or whose token goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event<Owner> {
    Gone,
    Come(u64, Owner),
}

/// The places of the tokens whose owners have no index. Where these are a few, blocks without them are passed over.
pub fn gone<Owner: Copy + PartialEq + Into<u32>>(
    owners: &[Owner],
    index: &[Option<u32>],
    narrow: impl Fn(usize) -> Owner,
) -> Vec<usize> {
    let is_gone: Vec<bool> = index.iter().map(Option::is_none).collect();
    let nodes: Vec<Owner> = (0..index.len()).filter(|&node| is_gone[node]).map(narrow).collect();
    let mut found = Vec::new();
    for (block, owners) in owners.chunks(BLOCK).enumerate() {
        if nodes.len() > FEW_NODES || nodes.iter().any(|node| owners.contains(node)) {
            let places = (block * BLOCK..).zip(owners);
            found.extend(places.filter(|&(_, &owner)| is_gone[owner.into() as usize]).map(|(place, _)| place));
        }
    }
    found
}

/// The events of a change, in order. Owners without an index are gone, and with them their tokens, at these places;
/// `place_of` is how many tokens lie before a position.
pub fn events<Owner: Copy + Ord + Into<u32>>(
    tokens: &[u64],
    owners: &[Owner],
    index: &[Option<Owner>],
    gone: &[usize],
    more: &[(u64, Owner)],
    place_of: impl Fn(u64) -> usize,
) -> Vec<(usize, Event<Owner>)> {
    let index_of = |place: usize| index[owners[place].into() as usize];
    let mut found: Vec<_> = more
        .iter()
        .map(|&(token, owner)| {
            // Of equal tokens the smaller index comes first.
            let near = place_of(token);
            let equal = (near..tokens.len()).take_while(|&place| tokens[place] == token);
            let before = equal.take_while(|&place| index_of(place).is_none_or(|other| other < owner)).count();
            (near + before, Event::Come(token, owner))
        })
        .collect();
    if !gone.is_empty() {
        found.extend(gone.iter().map(|&place| (place, Event::Gone)));
        found.sort_by_key(|&(place, event)| (place, event == Event::Gone)); // stable: what comes keeps its order
    }
    found
}

/// The circle after a change: what lies between its events is copied as it is.
pub fn changed<Owner: Copy + Ord + Into<u32>>(
    tokens: &[u64],
    owners: &[Owner],
    index: &[Option<Owner>],
    events: &[(usize, Event<Owner>)],
) -> (Vec<u64>, Vec<Owner>) {
    let now: Vec<Owner> = index.iter().map(|&index| index.unwrap_or(owners[0])).collect();
    let all_stay = (0..).zip(index).all(|(place, index)| index.is_none_or(|index| index.into() == place));
    let most = tokens.len() + events.len();
    let (mut bounds, mut found) = (Vec::with_capacity(most + PADDING), Vec::with_capacity(most + 1));
    let mut done = 0;
    for &(place, event) in events.iter().chain([&(tokens.len(), Event::Gone)]) {
        bounds.extend_from_slice(&tokens[done..place]);
        if all_stay {
            found.extend_from_slice(&owners[done..place]);
        } else {
            found.extend(owners[done..place].iter().map(|&owner| now[owner.into() as usize]));
        }
        done = place;
        match event {
            Event::Gone => done += 1,
            Event::Come(token, owner) => {
                bounds.push(token);
                found.push(owner);
            }
        }
    }
    found.extend(found.first().copied());
    (bounds, found)
}

/// Tokens that are looked at together, and up to how many nodes are looked for one by one.
const BLOCK: usize = 64;
const FEW_NODES: usize = 4;

/// Up to so many neighbours are sorted by insertion.
const FEW: usize = 32;

/// Sort the tokens of a bucket, of which there are few unless the hash crowds them.
fn sort_pairs<Owner: Copy + Ord>(bounds: &mut [u64], owners: &mut [Owner], from: usize, to: usize) {
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
