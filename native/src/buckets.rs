//! Buckets: from the top bits of a position to where among sorted cuts the search begins.
//!
//! There is a bucket a cut, or a little fewer. A bucket has one byte, how many cuts lie before it in its block; a block of
//! them has the count before all of it. So they are small enough to stay at hand when the cuts are not, and a search
//! waits for memory once. A byte that would be more is 255, and the search looks further from there.
//!
//! Promises: no cut before a start ends at or after the position; at most 17/16 bytes a cut, and one block.

use crate::cuts::Cuts;

const BLOCK: usize = 64;

pub struct Buckets {
    /// How many cuts lie before each block, and all of them at the end.
    bases: Vec<u32>,
    /// How many more lie before each bucket of it; one bucket more, which begins the block after the last.
    offsets: Vec<u8>,
    shift: u32,
}

impl Buckets {
    /// Count sorted cuts. O(cuts).
    pub fn of(cuts: &Cuts) -> Buckets {
        let shift = shift_for(cuts.len());
        let blocks = (1usize << (64 - shift)).div_ceil(BLOCK);
        let mut buckets = Buckets { bases: vec![0; blocks + 1], offsets: vec![0; blocks * BLOCK + 1], shift };
        (0..blocks).for_each(|block| buckets.count(block, cuts));
        buckets
    }

    /// Those of changed cuts, of which there are as many buckets: `changes` are, in order, the bounds that came or went, and
    /// how many more that makes, wrapping. It costs what a copy does, and a count of the blocks that changed.
    pub fn changed(&self, cuts: &Cuts, changes: impl Iterator<Item = (u64, u32)>) -> Buckets {
        debug_assert!(shift_for(cuts.len()) == self.shift);
        let mut touched: Vec<usize> = Vec::new();
        let mut bases = Vec::with_capacity(self.bases.len());
        let mut all = 0u32;
        for (bound, more) in changes {
            let block = self.bucket(bound) / BLOCK;
            bases.extend(self.bases[bases.len()..=block].iter().map(|count| count.wrapping_add(all)));
            all = all.wrapping_add(more);
            if touched.last() != Some(&block) {
                touched.push(block);
            }
        }
        bases.extend(self.bases[bases.len()..].iter().map(|count| count.wrapping_add(all)));
        let mut next = Buckets { bases, offsets: self.offsets.clone(), shift: self.shift };
        touched.into_iter().for_each(|block| next.count(block, cuts));
        next
    }

    /// Count the cuts in a block, from where it begins.
    fn count(&mut self, block: usize, cuts: &Cuts) {
        let mut counts = [0u32; BLOCK];
        let start = self.bases[block] as usize;
        let buckets = cuts.tops(start, self.shift).take_while(|bucket| bucket / BLOCK == block);
        buckets.for_each(|bucket| counts[bucket % BLOCK] += 1);
        let mut before = 0;
        for (offset, more) in self.offsets[block * BLOCK..].iter_mut().zip(counts) {
            *offset = before.min(u32::from(u8::MAX)) as u8;
            before += more;
        }
        self.bases[block + 1] = self.bases[block] + before;
    }

    /// Where to begin looking for the first cut that does not end before a position.
    #[inline(always)]
    pub fn start(&self, position: u64) -> u32 {
        self.before(self.bucket(position))
    }

    /// Up to which place it is enough to look.
    pub fn end(&self, position: u64) -> u32 {
        let next = self.bucket(position) + 1;
        if self.offsets[next] == u8::MAX { self.bases[next / BLOCK + 1] } else { self.before(next) }
    }

    /// Whether so many cuts have buckets of this size.
    pub fn fit(&self, cuts: usize) -> bool {
        shift_for(cuts) == self.shift
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.bases[..]) + size_of_val(&self.offsets[..])
    }

    #[inline(always)]
    fn bucket(&self, position: u64) -> usize {
        (position >> self.shift) as usize
    }

    #[inline(always)]
    fn before(&self, bucket: usize) -> u32 {
        self.bases[bucket / BLOCK] + u32::from(self.offsets[bucket])
    }
}

/// With a bucket a cut, or a little fewer.
pub fn shift_for(cuts: usize) -> u32 {
    64 - cuts.max(2).ilog2()
}
