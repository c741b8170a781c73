//! The twin of `balance/helix/jenkins.py`. The hash of three words takes several second words at once.

const SEED: u32 = 1_315_423_911;
const X: u32 = 231_232;
const Y: u32 = 1232;

/// The number of hashes at once. They fill the registers of every machine, and the compiler makes vectors of them.
pub const LANES: usize = 8;

type Lanes = [u32; LANES];

/// Return the hash of one word.
pub fn hash1(a: u32) -> u32 {
    let (_, _, found) = mix(a, X, SEED ^ a);
    mix(Y, a, found).2
}

/// Return the hash of two words.
pub fn hash2(a: u32, b: u32) -> u32 {
    let (a, b, found) = mix(a, b, SEED ^ a ^ b);
    let (_, _, found) = mix(X, a, found);
    mix(b, Y, found).2
}

/// Return the hashes of three words, for several second words.
#[inline]
pub fn hash3(a: u32, b: &Lanes, c: u32) -> Lanes {
    std::array::from_fn(|lane| {
        let b = b[lane];
        let (a, b, found) = mix(a, b, SEED ^ a ^ b ^ c);
        let (c, x, found) = mix(c, X, found);
        let (y, _, found) = mix(Y, a, found);
        let (_, _, found) = mix(b, x, found);
        mix(y, c, found).2
    })
}

#[inline(always)]
fn mix(a: u32, b: u32, c: u32) -> (u32, u32, u32) {
    let a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
    let b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
    let c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
    let a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
    let b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
    let c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
    let a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
    let b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
    let c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15);
    (a, b, c)
}
