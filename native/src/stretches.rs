//! The circle cut into stretches, and the search for the one that a position lies in.
//!
//! Stretch i ends with the position `bounds[i]`; the last one goes to the end of the circle. The top bits of a position
//! name a bucket, and the bucket says between which bounds to look: with a bucket a bound there is one on average, where
//! halving 150 000 of them takes 17 steps.
//!
//! Promises: the answers of a binary search, at most 16 bytes a bound. Immutable: a change makes the next one.

use crate::circle::{self, Event, Unsorted};

/// Where owners do not fit into 16 bits they take 32.
enum Owners {
    Narrow(Vec<u16>),
    Wide(Vec<u32>),
}

pub struct Stretches {
    /// In order, with `NEAR` more at the end, so that as many can always be read.
    padded_bounds: Vec<u64>,
    owners: Owners,
    /// How many bounds lie before each bucket, and all of them at the end.
    buckets: Vec<u32>,
    shift: u32,
}

/// So many bounds from the start of a bucket on are compared at once. Those of later buckets are after the position
/// anyway, and do no harm.
const NEAR: usize = 4;
pub const PADDING: usize = NEAR;
pub const NARROW_NODES: usize = 1 << 16;

impl Stretches {
    /// Take sorted bounds, and the owners of the stretches, one more than there are bounds.
    pub fn new(bounds: Vec<u64>, owners: Vec<u32>, nodes: usize) -> Stretches {
        assert!(owners.iter().all(|&owner| (owner as usize) < nodes), "each owner is a node");
        if nodes <= NARROW_NODES {
            let narrow = owners.into_iter().map(|owner| owner as u16).collect();
            Stretches::with(bounds, Owners::Narrow(narrow))
        } else {
            Stretches::with(bounds, Owners::Wide(owners))
        }
    }

    fn with(bounds: Vec<u64>, owners: Owners) -> Stretches {
        let buckets = count_before_buckets(&bounds, shift_for(bounds.len()));
        Stretches::with_buckets(bounds, owners, buckets)
    }

    fn with_buckets(mut bounds: Vec<u64>, owners: Owners, buckets: Vec<u32>) -> Stretches {
        let shift = shift_for(bounds.len());
        bounds.reserve_exact(PADDING);
        bounds.resize(bounds.len() + PADDING, u64::MAX);
        let stretches = Stretches { padded_bounds: bounds, owners, buckets, shift };
        assert!(stretches.owner_count() == stretches.len(), "each stretch has an owner");
        stretches
    }

    /// Take the tokens of a circle.
    pub fn of_circle(tokens: Unsorted, nodes: usize) -> Stretches {
        if nodes <= NARROW_NODES {
            let (bounds, owners) = tokens.laid(|owner| owner as u16);
            Stretches::with(bounds, Owners::Narrow(owners))
        } else {
            let (bounds, owners) = tokens.laid(|owner| owner);
            Stretches::with(bounds, Owners::Wide(owners))
        }
    }

    /// The circle with more tokens, and without those of nodes that have no new index, whose places are known. It costs
    /// what a copy does.
    pub fn changed(&self, index_of_old: &[Option<u32>], gone: &[usize], more: Unsorted, nodes: usize) -> Stretches {
        if let (Owners::Narrow(owners), true) = (&self.owners, nodes <= NARROW_NODES) {
            let index: Vec<Option<u16>> = index_of_old.iter().map(|index| index.map(|index| index as u16)).collect();
            let more: Vec<(u64, u16)> = more.sorted().into_iter().map(|(token, owner)| (token, owner as u16)).collect();
            let events = circle::events(self.bounds(), owners, &index, gone, &more, |token| self.stretch(token));
            let (bounds, owners) = circle::changed(self.bounds(), owners, &index, &events);
            if shift_for(bounds.len()) == self.shift {
                return Stretches::with_buckets(bounds, Owners::Narrow(owners), self.buckets_after(&events));
            }
            Stretches::with(bounds, Owners::Narrow(owners))
        } else {
            let owners: Vec<u32> = (0..self.bounds().len()).map(|place| self.owner(place)).collect();
            let more = more.sorted();
            let events = circle::events(self.bounds(), &owners, index_of_old, gone, &more, |token| self.stretch(token));
            let (bounds, owners) = circle::changed(self.bounds(), &owners, index_of_old, &events);
            Stretches::new(bounds, owners, nodes)
        }
    }

    /// The buckets after a change: each counts what came before it, and no more what went.
    fn buckets_after<Owner: Copy>(&self, events: &[(usize, Event<Owner>)]) -> Vec<u32> {
        let mut buckets = Vec::with_capacity(self.buckets.len());
        let (mut done, mut more) = (0, 0u32);
        for &(place, event) in events {
            let (token, by) = match event {
                Event::Gone => (self.bounds()[place], u32::MAX), // one less
                Event::Come(token, _) => (token, 1),
            };
            let next = (token >> self.shift) as usize + 1;
            buckets.extend(self.buckets[done..next].iter().map(|count| count.wrapping_add(more)));
            (done, more) = (next, more.wrapping_add(by));
        }
        buckets.extend(self.buckets[done..].iter().map(|count| count.wrapping_add(more)));
        buckets
    }

    /// Where each range of one owner starts, and the owner: neighbours alike are joined, and stretches without a position
    /// are left out.
    pub fn ranges(&self) -> (Vec<u64>, Vec<u32>) {
        let (mut starts, mut owners) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        let begins = std::iter::once(Some(0)).chain(self.bounds().iter().map(|bound| bound.checked_add(1)));
        for (stretch, begin) in begins.enumerate() {
            let (Some(start), owner) = (begin, self.owner(stretch)) else { break };
            let is_empty = self.bounds().get(stretch).is_some_and(|&bound| bound < start);
            if !is_empty && owners.last() != Some(&owner) {
                starts.push(start);
                owners.push(owner);
            }
        }
        (starts, owners)
    }

    /// How many bytes the stretches take.
    pub fn bytes(&self) -> usize {
        let owners = match &self.owners {
            Owners::Narrow(owners) => size_of_val(&owners[..]),
            Owners::Wide(owners) => size_of_val(&owners[..]),
        };
        size_of_val(&self.padded_bounds[..]) + size_of_val(&self.buckets[..]) + owners
    }

    fn owner_count(&self) -> usize {
        match &self.owners {
            Owners::Narrow(owners) => owners.len(),
            Owners::Wide(owners) => owners.len(),
        }
    }

    /// The places of the tokens of nodes that have no new index.
    pub fn gone(&self, index_of_old: &[Option<u32>]) -> Vec<usize> {
        if index_of_old.iter().all(Option::is_some) {
            return Vec::new();
        }
        let tokens = self.bounds().len();
        match &self.owners {
            Owners::Narrow(owners) => circle::gone(&owners[..tokens], index_of_old, |node| node as u16),
            Owners::Wide(owners) => circle::gone(&owners[..tokens], index_of_old, |node| node as u32),
        }
    }

    pub fn len(&self) -> usize {
        self.bounds().len() + 1
    }

    #[inline]
    pub fn bounds(&self) -> &[u64] {
        &self.padded_bounds[..self.padded_bounds.len() - NEAR]
    }

    #[inline]
    pub fn owner(&self, stretch: usize) -> u32 {
        match &self.owners {
            Owners::Narrow(owners) => u32::from(owners[stretch]),
            Owners::Wide(owners) => owners[stretch],
        }
    }

    /// The number of the stretch that a position lies in: how many bounds are before it.
    #[inline]
    pub fn stretch(&self, position: u64) -> usize {
        self.stretch_from(self.buckets[(position >> self.shift) as usize], position)
    }

    /// The same for a position in a bucket before which so many bounds lie.
    #[inline]
    fn stretch_from(&self, low: u32, position: u64) -> usize {
        let low = low as usize;
        let near: &[u64; NEAR] = self.padded_bounds[low..low + NEAR].try_into().expect("there is a padding");
        let before: usize = near.iter().map(|&bound| usize::from(bound < position)).sum();
        if before < NEAR { low + before } else { self.crowded(low + NEAR, position) }
    }

    #[cold]
    fn crowded(&self, low: usize, position: u64) -> usize {
        let high = self.buckets[(position >> self.shift) as usize + 1] as usize;
        low + self.padded_bounds[low..high].partition_point(|&bound| bound < position)
    }

    /// Put the owners of positions into as much room. In steps for all of them, so that none waits for another's memory.
    pub fn owners<const N: usize>(&self, positions: &[u64], room: &mut [u32; N]) {
        for (&position, place) in positions.iter().zip(room.iter_mut()) {
            *place = self.buckets[(position >> self.shift) as usize];
        }
        for (&position, place) in positions.iter().zip(room.iter_mut()) {
            *place = self.stretch_from(*place, position) as u32;
        }
        let found = &mut room[..positions.len()];
        match &self.owners {
            Owners::Narrow(owners) => found.iter_mut().for_each(|place| *place = u32::from(owners[*place as usize])),
            Owners::Wide(owners) => found.iter_mut().for_each(|place| *place = owners[*place as usize]),
        }
    }
}

/// With a bucket a bound, or a little fewer.
pub fn shift_for(bounds: usize) -> u32 {
    64 - bounds.max(2).ilog2()
}

fn count_before_buckets(bounds: &[u64], shift: u32) -> Vec<u32> {
    let mut before = vec![0u32; (1 << (64 - shift)) + 1];
    for bound in bounds {
        before[(bound >> shift) as usize + 1] += 1;
    }
    let mut count = 0;
    for bucket in &mut before {
        count += *bucket;
        *bucket = count;
    }
    before
}
