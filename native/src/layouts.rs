//! Hash functions that the layouts of other systems prescribe; the twins of those in `placement/`.

use crate::murmur3;

pub const REDIS_SLOT_BITS: u32 = 14;

/// Return the position of a key under Murmur3Partitioner: the token plus 2**63. See
/// `placement/layouts/cassandra/tokens.py`.
pub fn cassandra_position(data: &[u8]) -> u64 {
    if data.is_empty() {
        return 0; // the least token, which no other key has
    }
    match murmur3::first_half_of_signed(data) ^ 1 << 63 {
        0 => u64::MAX,
        position => position,
    }
}

/// Return the first four bytes of an MD5, as a little-endian number.
pub fn first_word(digest: &[u8]) -> u64 {
    digest[..4].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Return the part of a key that Redis hashes: the content of its first braces, unless that is empty.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// Return MurmurHash2 of 32 bits, with the seed of Kafka's clients; see `placement/layouts/kafka.py`.
pub fn kafka_murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let (words, rest) = data.as_chunks();
    let mut state = words.iter().fold(SEED ^ data.len() as u32, |state, &word| {
        let mixed = u32::from_le_bytes(word).wrapping_mul(MULTIPLIER);
        state.wrapping_mul(MULTIPLIER) ^ (mixed ^ mixed >> 24).wrapping_mul(MULTIPLIER)
    });
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        state = (state ^ tail).wrapping_mul(MULTIPLIER);
    }
    state = (state ^ state >> 13).wrapping_mul(MULTIPLIER);
    state ^ state >> 15
}

/// Return the CRC-32 of zlib: polynomial 0x04c11db7, reflected.
pub fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, &byte| crc >> 8 ^ CRC32[usize::from(crc as u8 ^ byte)])
}

static CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xedb8_8320 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
