//! The tree of merges that draws a key's ranking for choose-k; `placement/choose_k.py` explains the draws.

use std::collections::HashMap;

use crate::hash::Hasher;

/// The places of the tree are numbered from its root, 1. The halves of place i are 2i and 2i + 1.
pub struct Tree {
    levels: u32,
    /// The owner of each number, none if the number is dead.
    owners: Vec<Option<u32>>,
    /// Whether a live number is at or below each place.
    is_live: Vec<bool>,
}

impl Tree {
    /// Take the owner of each number; none if no number lives.
    pub fn new(mut owners: Vec<Option<u32>>) -> Option<Tree> {
        let leaves = owners.len().next_power_of_two();
        owners.resize(leaves, None);
        let mut is_live = vec![false; leaves];
        is_live.extend(owners.iter().map(Option::is_some));
        for place in (1..leaves).rev() {
            is_live[place] = is_live[2 * place] || is_live[2 * place + 1];
        }
        is_live[1].then_some(Tree { levels: leaves.ilog2(), owners, is_live })
    }

    /// Return the owner of the first live number drawn.
    pub fn owner(&self, hasher: &Hasher, hash: u64) -> u32 {
        let mut label = *b"choose-k/1....................";
        label[18..26].copy_from_slice(&hash.to_le_bytes());
        let mut rest = HashMap::new();
        loop {
            if let Some(owner) = self.draw(hasher, &mut label, &mut rest) {
                return owner;
            }
        }
    }

    /// Draw once. `rest` counts the numbers that the halves of each place have left.
    fn draw(&self, hasher: &Hasher, label: &mut [u8; 30], rest: &mut HashMap<usize, [u32; 2]>) -> Option<u32> {
        let mut place = 1;
        for level in (1..=self.levels).rev() {
            if !self.is_live[place] {
                return None;
            }
            let half = 1 << (level - 1);
            let [left, right] = rest.entry(place).or_insert([half, half]);
            let left_over = *left + *right;
            let first = 1 << (self.levels - level);
            label[10..14].copy_from_slice(&level.to_le_bytes());
            label[14..18].copy_from_slice(&((place - first) as u32).to_le_bytes());
            label[26..].copy_from_slice(&(2 * half - left_over).to_le_bytes());
            let drawn = ((u128::from(hasher.digest(label)) * u128::from(left_over)) >> 64) as u32;
            let is_right = drawn >= *left;
            *(if is_right { right } else { left }) -= 1;
            place = 2 * place + usize::from(is_right);
        }
        self.owners[place - self.owners.len()]
    }
}
