//! MurmurHash3, the 128-bit variant for 64-bit machines with seed 0: its first half.
//!
//! Source: Austin Appleby, MurmurHash3.cpp, `MurmurHash3_x64_128` (public domain).

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Return the first 64 bits of the hash of `data`.
#[inline]
pub fn first_half(data: &[u8]) -> u64 {
    // Zeros scramble to zero, so a padded tail is mixed as the original mixes a short one.
    mixed(data, |tail| {
        let mut padded = [0; 16];
        padded[..tail.len()].copy_from_slice(tail);
        halves(&padded)
    })
}

/// Return the same in the variant of Apache Cassandra: the bytes after the last block are sign-extended.
#[inline]
pub fn first_half_of_signed(data: &[u8]) -> u64 {
    mixed(data, |tail| {
        let (low, high) = tail.split_at(tail.len().min(8));
        (signed_word(low), signed_word(high))
    })
}

fn signed_word(tail: &[u8]) -> u64 {
    let widened = tail.iter().enumerate().map(|(place, &byte)| (i64::from(byte as i8) as u64) << (8 * place));
    widened.fold(0, |word, byte| word ^ byte)
}

#[inline(always)]
fn mixed(data: &[u8], words_of: impl Fn(&[u8]) -> (u64, u64)) -> u64 {
    let blocks = data.chunks_exact(16);
    let tail = blocks.remainder();
    let (mut one, mut two) = (0u64, 0u64);
    for block in blocks {
        let (low, high) = halves(block.try_into().expect("sixteen bytes"));
        one ^= scrambled_low(low);
        one = one.rotate_left(27).wrapping_add(two).wrapping_mul(5).wrapping_add(0x52dc_e729);
        two ^= scrambled_high(high);
        two = two.rotate_left(31).wrapping_add(one).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = words_of(tail);
    one ^= scrambled_low(low);
    two ^= scrambled_high(high);
    let length = data.len() as u64;
    one ^= length;
    two ^= length;
    one = one.wrapping_add(two);
    two = two.wrapping_add(one);
    finished(one).wrapping_add(finished(two))
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

fn scrambled_low(word: u64) -> u64 {
    word.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scrambled_high(word: u64) -> u64 {
    word.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finished(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}
