//! Buckets: from the top bits of a position to the place among sorted cuts where the search begins.
//!
//! There is one bucket per cut, or slightly fewer. The one byte of a bucket counts the cuts before it in its block. A
//! block of buckets has the count of all cuts before the block. Buckets are therefore small enough for the cache when
//! the cuts are not, and a search waits for memory once. A count too large for a byte becomes 255, and the search looks
//! further from there.
//!
//! Promises: no cut before a start ends at or after the position. At most 17/16 bytes per cut, and one block.

use crate::cuts::Cuts;

const BLOCK: usize = 64;

pub struct Buckets {
    /// The number of cuts before each block, and the number of all cuts at the end.
    bases: Vec<u32>,
    /// The number of cuts between the start of the block and each bucket. The last entry begins the block after the
    /// last.
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

    /// Return the buckets of changed cuts, of which there are as many. `changes` are, in order, the bounds that came or
    /// went, each with the wrapping difference in cuts. The cost is a copy, and a count of the changed blocks.
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

    /// Count the cuts of a block. The count before the block is known.
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

    /// Return the place where the search begins for the first cut that does not end before a position.
    #[inline(always)]
    pub fn start(&self, position: u64) -> u32 {
        self.before(self.bucket(position))
    }

    /// Return the place where that search may end.
    pub fn end(&self, position: u64) -> u32 {
        let next = self.bucket(position) + 1;
        if self.offsets[next] == u8::MAX { self.bases[next / BLOCK + 1] } else { self.before(next) }
    }

    /// Return whether this many cuts have buckets of this size.
    pub fn fit(&self, cuts: usize) -> bool {
        shift_for(cuts) == self.shift
    }

    /// Return how many bytes the buckets take.
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

/// Return the shift to one bucket per cut, or slightly fewer.
pub fn shift_for(cuts: usize) -> u32 {
    64 - cuts.max(2).ilog2()
}
