//! The columns of a saved table: the twin of what `model/columns.py` and `Table` check of them.
//!
//! Promises: the leaders of a table that these accept; nothing for any other, which they then refuse with a reason.

use crate::stretches::PADDING;

/// Stands where a row of owners is shorter than the longest.
const NOBODY: u32 = u32::MAX;
const OWNER_DIGITS: usize = 8;
const START_DIGITS: usize = 16;

/// From hexadecimal digits: the last positions of all ranges but the last, and the first owner of each; none if it is
/// not a table.
pub fn read(starts: &[u8], owners: &[u8], shape: (i64, i64), nodes: usize) -> Option<(Vec<u64>, Vec<u32>)> {
    let (starts, rest) = starts.as_chunks::<START_DIGITS>();
    let (owners, too) = owners.as_chunks::<OWNER_DIGITS>();
    let (replicas, slots) = (usize::try_from(shape.0).ok()?, u64::try_from(shape.1).ok()?);
    let is_whole = rest.is_empty() && too.is_empty() && !starts.is_empty();
    if !is_whole || !(1..=nodes).contains(&replicas) || Some(owners.len()) != starts.len().checked_mul(replicas) {
        return None;
    }
    Some((bounds_of(starts, slots)?, leaders_of(owners, replicas, nodes)?))
}

// In both, faults are gathered and looked at once: a branch at every number would cost more than reading it.

fn bounds_of(starts: &[[u8; START_DIGITS]], slots: u64) -> Option<Vec<u64>> {
    let mut faults = 0;
    let mut read = |digits: &[u8; START_DIGITS]| {
        let (halves, _) = digits.as_chunks();
        let ((high, first), (low, second)) = (number(halves[0]), number(halves[1]));
        faults |= first | second;
        high << 32 | low
    };
    let mut before = read(&starts[0]);
    let mut in_order = before == 0;
    let later = starts[1..].iter().map(|digits| {
        let start = read(digits);
        in_order &= start > before;
        before = start;
        start.wrapping_sub(1)
    });
    let mut bounds = Vec::with_capacity(starts.len() + PADDING);
    bounds.extend(later);
    let in_slots = slots == 0 || bounds.iter().all(|&bound| begins_slot(bound.wrapping_add(1), slots));
    (faults == 0 && in_order && in_slots).then_some(bounds)
}

fn leaders_of(owners: &[[u8; OWNER_DIGITS]], replicas: usize, nodes: usize) -> Option<Vec<u32>> {
    let mut faults = 0;
    let read = owners.iter().map(|&digits| {
        let (owner, fault) = number(digits);
        faults |= fault;
        owner as u32
    });
    let owners: Vec<u32> = read.collect();
    if faults != 0 {
        return None;
    }
    if replicas == 1 {
        return owners.iter().all(|&owner| (owner as usize) < nodes).then_some(owners);
    }
    let rows = owners.chunks_exact(replicas);
    rows.map(|row| is_row(row, nodes).then(|| row[0])).collect()
}

/// Whether these are distinct nodes, at least one, after which there may be nobody.
fn is_row(row: &[u32], nodes: usize) -> bool {
    let length = row.iter().position(|&owner| owner == NOBODY).unwrap_or(row.len());
    let (owners, rest) = row.split_at(length);
    let are_nodes = owners.iter().all(|&owner| (owner as usize) < nodes);
    let are_distinct = owners.iter().enumerate().all(|(place, owner)| !owners[..place].contains(owner));
    length > 0 && are_nodes && are_distinct && rest.iter().all(|&owner| owner == NOBODY)
}

/// Whether a position is the first of one of so many slots.
fn begins_slot(start: u64, slots: u64) -> bool {
    let slot = (u128::from(start) * u128::from(slots)) >> 64;
    (slot << 64).div_ceil(u128::from(slots)) == u128::from(start)
}

/// The number that eight hexadecimal digits write, lower-case, all eight at once in one register; and bits that are not
/// 0 if they are no such digits.
#[inline(always)]
fn number(digits: [u8; 8]) -> (u64, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_be_bytes(digits);
    let letters = (text >> 6) & EACH;
    let low = text & (0x0f * EACH);
    let other_high = (text & (0xf0 * EACH)) ^ ((0x30 * EACH) + letters * 0x30);
    let too_great = (low + 6 * EACH + 3 * letters) & (0x10 * EACH);
    let too_small = letters & !((low + 15 * EACH) >> 4);
    let mut packed = low + 9 * letters;
    packed = (packed | packed >> 4) & 0x00ff_00ff_00ff_00ff;
    packed = (packed | packed >> 8) & 0x0000_ffff_0000_ffff;
    ((packed | packed >> 16) & 0xffff_ffff, other_high | too_great | too_small)
}
