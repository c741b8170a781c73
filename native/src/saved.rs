//! The columns of a saved table: the twin of the checks in `model/codec/columns.py` and `Table`.
//!
//! Promises: the leaders of a table that these accept, and nothing for any other. They then refuse it with a reason.

use crate::cuts::PADDING;

/// Fills a row of owners that is shorter than the longest.
const NOBODY: u32 = u32::MAX;
const OWNER_DIGITS: usize = 8;
const START_DIGITS: usize = 16;

/// Return the last positions of all ranges but the last, and the first owner of each, from hexadecimal digits. None if
/// the digits are not a table.
pub fn read(starts: &[u8], owners: &[u8], shape: (i64, i64), nodes: usize) -> Option<(Vec<u64>, Vec<u32>)> {
    if !are_digits(starts) || !are_digits(owners) {
        return None;
    }
    let (starts, rest) = starts.as_chunks::<START_DIGITS>();
    let (owners, too) = owners.as_chunks::<OWNER_DIGITS>();
    let (replicas, slots) = (usize::try_from(shape.0).ok()?, u64::try_from(shape.1).ok()?);
    let is_whole = rest.is_empty() && too.is_empty() && !starts.is_empty();
    if !is_whole || !(1..=nodes).contains(&replicas) || Some(owners.len()) != starts.len().checked_mul(replicas) {
        return None;
    }
    Some((bounds_of(starts, slots)?, leaders_of(owners, replicas, nodes)?))
}

/// Return whether all are lower-case hexadecimal digits. Many are checked at once, before any of them is read.
fn are_digits(text: &[u8]) -> bool {
    text.iter().fold(true, |are, digit| are & matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn bounds_of(starts: &[[u8; START_DIGITS]], slots: u64) -> Option<Vec<u64>> {
    let read = |digits: &[u8; START_DIGITS]| {
        let (halves, _) = digits.as_chunks();
        (u64::from(packed(halves[0])) | u64::from(packed(halves[1])) << 32).swap_bytes()
    };
    let mut before = read(&starts[0]);
    let mut in_order = before == 0; // without a branch per start, which would cost more than reading it
    let later = starts[1..].iter().map(|digits| {
        let start = read(digits);
        in_order &= start > before;
        before = start;
        start.wrapping_sub(1)
    });
    let mut bounds = Vec::with_capacity(starts.len() + PADDING);
    bounds.extend(later);
    let in_slots = slots == 0 || bounds.iter().all(|&bound| begins_slot(bound.wrapping_add(1), slots));
    (in_order && in_slots).then_some(bounds)
}

fn leaders_of(digits: &[[u8; OWNER_DIGITS]], replicas: usize, nodes: usize) -> Option<Vec<u32>> {
    let owners: Vec<u32> = digits.iter().map(|&digits| packed(digits).swap_bytes()).collect();
    if replicas == 1 {
        return owners.iter().all(|&owner| (owner as usize) < nodes).then_some(owners);
    }
    let rows = owners.chunks_exact(replicas);
    rows.map(|row| is_row(row, nodes).then(|| row[0])).collect()
}

/// Return whether a row is distinct nodes, at least one, followed by `NOBODY` or by nothing.
fn is_row(row: &[u32], nodes: usize) -> bool {
    let length = row.iter().position(|&owner| owner == NOBODY).unwrap_or(row.len());
    let (owners, rest) = row.split_at(length);
    let are_nodes = owners.iter().all(|&owner| (owner as usize) < nodes);
    let are_distinct = owners.iter().enumerate().all(|(place, owner)| !owners[..place].contains(owner));
    length > 0 && are_nodes && are_distinct && rest.iter().all(|&owner| owner == NOBODY)
}

/// Return whether a position is the first of a slot, given the number of slots.
fn begins_slot(start: u64, slots: u64) -> bool {
    let slot = (u128::from(start) * u128::from(slots)) >> 64;
    (slot << 64).div_ceil(u128::from(slots)) == u128::from(start)
}

/// Return the bytes that eight hexadecimal digits write, the first one lowest. One register holds all eight at once.
#[inline(always)]
fn packed(digits: [u8; 8]) -> u32 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let text = u64::from_le_bytes(digits);
    let letters = (text >> 6) & EACH;
    let mut packed = (text & (0x0f * EACH)) + 9 * letters;
    packed = (packed << 4 | packed >> 8) & 0x00ff_00ff_00ff_00ff;
    packed = (packed | packed >> 8) & 0x0000_ffff_0000_ffff;
    (packed | packed >> 16) as u32
}
