//! The straws of one parent, and the draw of several children: the twin of `straws.py` and `drawing.py` in
//! balance/helix/.

use super::jenkins::{LANES, hash3};

const MOST_RETURNS: usize = 50;

/// The children in the order in which they draw. Straws of length 0, which never win, fill the last row.
pub struct Straws {
    words: Vec<[u32; LANES]>,
    lengths: Vec<[u32; LANES]>,
    order: Vec<u32>,
}

impl Straws {
    /// Take the straws of this many children; none if the arguments do not fit together.
    pub fn of(words: &[u32], lengths: &[u32], order: Vec<u32>, children: usize) -> Option<Self> {
        let are_fit = words.len() == children && lengths.len() == children && order.len() == children;
        // The longest straw times 16 bits of a hash fits into 32 bits.
        let is_known = |&place: &u32| (place as usize) < children && lengths[place as usize] <= 1 << 16;
        (children > 0 && are_fit && order.iter().all(is_known)).then(|| Straws {
            words: in_lanes(words, &order),
            lengths: in_lanes(lengths, &order),
            order,
        })
    }

    /// Return the places of the children drawn for a partition's data, in the order of the draws.
    pub fn draw(&self, data: u32, count: usize, taken: &[u32]) -> Vec<u32> {
        let mut drawn = Vec::new();
        for pick in 1..=count {
            if self.is_exhausted(taken, &drawn) {
                break;
            }
            if let Some(place) = self.one(data, pick as u32, taken, &drawn) {
                drawn.push(place);
            }
        }
        drawn
    }

    /// Return the child of one pick, or none if the pick is given up.
    fn one(&self, data: u32, pick: u32, taken: &[u32], drawn: &[u32]) -> Option<u32> {
        let mut attempt = pick;
        let mut returns = 0;
        let mut refused = Vec::new();
        loop {
            let index = self.longest(data, attempt);
            let place = self.order[index];
            attempt += 1;
            let is_taken = taken.contains(&place);
            if is_taken || drawn.contains(&place) {
                if is_taken && !refused.contains(&place) {
                    refused.push(place);
                }
                if !self.is_exhausted(&refused, drawn) {
                    continue;
                }
            } else if self.length(index) > 0 {
                return Some(place);
            }
            if returns == MOST_RETURNS {
                return None;
            }
            returns += 1;
            refused.clear();
        }
    }

    /// Return the child with the longest straw, the first of equals.
    fn longest(&self, data: u32, attempt: u32) -> usize {
        let mut best = 0;
        let mut winner = 0;
        for (row, (words, lengths)) in self.words.iter().zip(&self.lengths).enumerate() {
            let hashes = hash3(data, words, attempt);
            let scores: [u32; LANES] = std::array::from_fn(|lane| (hashes[lane] & 0xffff) * lengths[lane]);
            for (lane, &score) in scores.iter().enumerate() {
                if score > best {
                    best = score;
                    winner = row * LANES + lane;
                }
            }
        }
        winner
    }

    /// Return whether every child that can win is refused or drawn already.
    fn is_exhausted(&self, refused: &[u32], drawn: &[u32]) -> bool {
        let mut children = self.order.iter().enumerate();
        children.all(|(index, place)| self.length(index) == 0 || refused.contains(place) || drawn.contains(place))
    }

    fn length(&self, index: usize) -> u32 {
        self.lengths[index / LANES][index % LANES]
    }
}

fn in_lanes(numbers: &[u32], order: &[u32]) -> Vec<[u32; LANES]> {
    let number = |&place: &u32| numbers[place as usize];
    let filled = |chunk: &[u32]| std::array::from_fn(|lane| chunk.get(lane).map_or(0, number));
    order.chunks(LANES).map(filled).collect()
}
