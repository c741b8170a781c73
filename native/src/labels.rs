//! Labels: the hashes of node labels, each followed by a key's hash. The inner loop of rendezvous hashing.
//!
//! XXH3 of 17 to 128 bytes adds up products of two words, and mixes the sum. The key's hash is in the last product,
//! and for some lengths in one more. The others are added up once.
//!
//! Promises: the numbers of `Hasher::digest`, for every hash function and every length.
//! Source: `XXH3_len_17to128_64b` of xxHash 0.8.

use crate::hash::Hasher;

const KEY_BYTES: usize = 8;
const LENGTH_FACTOR: u64 = 0x9E37_79B1_85EB_CA87;
const MIX_FACTOR: u64 = 0x1656_6791_9E37_79F9;
/// The first words of XXH3's secret.
const SECRET: [u64; 16] = [
    0xBE4B_A423_396C_FEB8,
    0x1CAD_21F7_2C81_017C,
    0xDB97_9083_E96D_D4DE,
    0x1F67_B3B7_A4A4_4072,
    0x78E5_C0CC_4EE6_79CB,
    0x2172_FFCC_7DD0_5A82,
    0x8E24_43F7_7446_08B8,
    0x4C26_3A81_E690_35E0,
    0xCB00_C391_BB52_283C,
    0xA32E_531B_8B65_D088,
    0x4EF9_0DA2_9748_6471,
    0xD8AC_DEA9_46EF_1938,
    0x3F34_9CE3_3F76_FAA8,
    0x1D4F_0BC7_C7BB_DCF9,
    0x3159_B4CD_4BE0_518A,
    0x6473_78D9_C97E_9FC8,
];

/// Labels in their order, those of one form next to each other.
pub struct Labels<'a> {
    hasher: &'a Hasher,
    runs: Vec<Run>,
}

/// The two words of a label in a second product with the key's hash, and how far the hash is moved to the left there.
type Second = ([u64; 2], u32);

/// Labels of one form.
enum Run {
    Once(Vec<Once>),
    Twice(Vec<Twice>, u32),
    Whole(Vec<Vec<u8>>),
}

/// A label with the key's hash in one product: the sum of the others, and the word of the label in this one.
struct Once {
    sum: u64,
    word: u64,
}

/// A label with the key's hash in a second product.
struct Twice {
    once: Once,
    words: [u64; 2],
}

impl<'a> Labels<'a> {
    pub fn of(hasher: &'a Hasher, labels: Vec<Vec<u8>>) -> Labels<'a> {
        let mut runs = Vec::new();
        for mut text in labels {
            text.extend([0; KEY_BYTES]);
            let is_short = (17..=128).contains(&text.len()) && matches!(hasher, Hasher::Xxh3);
            match (if is_short { taken_apart(&text) } else { None }, runs.last_mut()) {
                (Some((once, None)), Some(Run::Once(run))) => run.push(once),
                (Some((once, None)), _) => runs.push(Run::Once(vec![once])),
                (Some((once, Some((words, shift)))), Some(Run::Twice(run, other))) if *other == shift => {
                    run.push(Twice { once, words });
                }
                (Some((once, Some((words, shift)))), _) => runs.push(Run::Twice(vec![Twice { once, words }], shift)),
                (None, Some(Run::Whole(run))) => run.push(text),
                (None, _) => runs.push(Run::Whole(vec![text])),
            }
        }
        Labels { hasher, runs }
    }

    /// Give the place of each label and its hash with a key's.
    #[inline(always)]
    pub fn each(&self, hash: u64, mut take: impl FnMut(usize, u64)) {
        let (mut start, last) = (0, hash ^ SECRET[3]);
        for run in &self.runs {
            match run {
                Run::Once(run) => {
                    for (place, once) in run.iter().enumerate() {
                        take(start + place, mixed(once.with(last)));
                    }
                    start += run.len();
                }
                Run::Twice(run, shift) => {
                    for (place, Twice { once, words: [low, high] }) in run.iter().enumerate() {
                        let second = folded(*low, high ^ hash << shift);
                        take(start + place, mixed(once.with(last).wrapping_add(second)));
                    }
                    start += run.len();
                }
                Run::Whole(run) => {
                    let mut text = Vec::new();
                    for (place, label) in run.iter().enumerate() {
                        text.clone_from(label);
                        let end = text.len() - KEY_BYTES;
                        text[end..].copy_from_slice(&hash.to_le_bytes());
                        take(start + place, self.hasher.digest(&text));
                    }
                    start += run.len();
                }
            }
        }
    }
}

impl Once {
    #[inline]
    fn with(&self, key: u64) -> u64 {
        self.sum.wrapping_add(folded(self.word, key))
    }
}

/// Return the sum of the products without the key's hash, and the words of the others. `text` ends with zeros.
fn taken_apart(text: &[u8]) -> Option<(Once, Option<Second>)> {
    let (length, key) = (text.len(), text.len() - KEY_BYTES);
    let mut sum = (length as u64).wrapping_mul(LENGTH_FACTOR);
    let (mut last, mut second) = (None, None);
    for (round, secret) in SECRET.as_chunks::<4>().0.iter().enumerate().take(length.div_ceil(32)) {
        let pairs = [(16 * round, [secret[0], secret[1]]), (length - 16 * (round + 1), [secret[2], secret[3]])];
        for (start, secret) in pairs {
            let words = [word(text, start) ^ secret[0], word(text, start + 8) ^ secret[1]];
            match (start + 16).checked_sub(key).filter(|&over| over > 0) {
                None => sum = sum.wrapping_add(folded(words[0], words[1])),
                Some(KEY_BYTES) => last = Some(words[0]),
                Some(over) => second = Some((words, 8 * (KEY_BYTES - over) as u32)),
            }
        }
    }
    last.map(|word| (Once { sum, word }, second))
}

fn word(text: &[u8], start: usize) -> u64 {
    u64::from_le_bytes(*text[start..].first_chunk().expect("a label and a key's hash have 17 bytes or more"))
}

#[inline]
fn folded(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn mixed(sum: u64) -> u64 {
    let sum = (sum ^ sum >> 37).wrapping_mul(MIX_FACTOR);
    sum ^ sum >> 32
}
