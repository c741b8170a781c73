//! Hash functions by name, as in `placement/hashers.py`: bytes to an unsigned integer.
//!
//! Promises: the numbers of the reference for every input, by stored vectors and by comparison.
//! Source: the crates xxhash-rust, siphasher, md-5 and sha2. MurmurHash3 and CRC16 are written here.

use md5::Digest;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use siphasher::sip::SipHasher24;

use crate::layouts;
use crate::murmur3;

pub const SECRET_BYTES: usize = 16;

/// A hash function, with its secret if it takes one.
pub enum Hasher {
    CassandraMurmur3,
    Crc32,
    KafkaMurmur2,
    Md5FirstWord,
    RedisSlot,
    /// A function from bytes to an integer of this many bits, written in Python.
    Python(Py<PyAny>, u32),
    Crc16,
    Md5,
    Murmur3,
    Sha256,
    SipHash24(SipHasher24),
    Xxh3,
    Xxh64,
}

impl Hasher {
    /// Return the twin of a hasher, by its name in the reference. A hasher without a twin is called in Python.
    pub fn of(hasher: &Bound<'_, PyAny>) -> PyResult<Hasher> {
        let native = hasher.py().import("apportion.placement.hashers")?.getattr("native_name")?.call1((hasher,))?;
        let (name, key): (Option<String>, Option<Vec<u8>>) = native.extract()?;
        if let Some(hasher) = name.and_then(|name| Hasher::named(&name, key.as_deref())) {
            return Ok(hasher);
        }
        Ok(Hasher::Python(hasher.getattr("digest")?.unbind(), hasher.getattr("bits")?.extract()?))
    }

    /// Return the hasher of this name. None if the name is unknown, or if the secret is missing, unexpected or of a
    /// wrong size.
    pub fn named(name: &str, secret: Option<&[u8]>) -> Option<Hasher> {
        match (name, secret) {
            ("cassandra-murmur3", None) => Some(Hasher::CassandraMurmur3),
            ("crc16", None) => Some(Hasher::Crc16),
            ("crc32", None) => Some(Hasher::Crc32),
            ("kafka-murmur2", None) => Some(Hasher::KafkaMurmur2),
            ("md5-first-word", None) => Some(Hasher::Md5FirstWord),
            ("redis-slot", None) => Some(Hasher::RedisSlot),
            ("md5", None) => Some(Hasher::Md5),
            ("murmur3", None) => Some(Hasher::Murmur3),
            ("sha-256", None) => Some(Hasher::Sha256),
            ("siphash-2-4", Some(secret)) => {
                let secret: &[u8; SECRET_BYTES] = secret.try_into().ok()?;
                Some(Hasher::SipHash24(SipHasher24::new_with_key(secret)))
            }
            ("xxh3-64", None) => Some(Hasher::Xxh3),
            ("xxh64", None) => Some(Hasher::Xxh64),
            _ => None,
        }
    }

    /// Return how many bits the hash has.
    pub fn bits(&self) -> u32 {
        match self {
            Hasher::RedisSlot => layouts::REDIS_SLOT_BITS,
            Hasher::Crc16 => 16,
            Hasher::Crc32 | Hasher::KafkaMurmur2 | Hasher::Md5FirstWord => 32,
            Hasher::Python(_, bits) => *bits,
            _ => 64,
        }
    }

    /// Return the hash of `data`, below `2**bits`.
    #[inline]
    pub fn digest(&self, data: &[u8]) -> u64 {
        match self {
            Hasher::Xxh3 => xxhash_rust::xxh3::xxh3_64(data),
            Hasher::Xxh64 => xxhash_rust::xxh64::xxh64(data, 0),
            Hasher::SipHash24(keyed) => keyed.hash(data),
            Hasher::Murmur3 => murmur3::first_half(data),
            Hasher::Crc16 => u64::from(crc16(data)),
            Hasher::CassandraMurmur3 => layouts::cassandra_position(data),
            Hasher::Crc32 => u64::from(layouts::crc32(data)),
            Hasher::KafkaMurmur2 => u64::from(layouts::kafka_murmur2(data)),
            Hasher::Md5FirstWord => layouts::first_word(&md5::Md5::digest(data)),
            Hasher::RedisSlot => u64::from(crc16(layouts::hash_tag(data))) % (1 << layouts::REDIS_SLOT_BITS),
            Hasher::Python(..) => unreachable!("it may fail, and is asked by position_with"),
            Hasher::Md5 => leading(&md5::Md5::digest(data)),
            Hasher::Sha256 => leading(&sha2::Sha256::digest(data)),
        }
    }

    /// Return the position on the circle: the hash, as the leading bits of 64.
    #[inline]
    pub fn position(&self, data: &[u8]) -> u64 {
        self.digest(data) << (64 - self.bits())
    }

    /// Put the positions of keys into the room, as many as there is room for.
    #[inline]
    pub fn positions(&self, keys: impl Iterator<Item: AsRef<[u8]>>, room: &mut [u64]) {
        match self {
            Hasher::Xxh3 => fill(keys, room, xxhash_rust::xxh3::xxh3_64),
            Hasher::Xxh64 => fill(keys, room, |data| xxhash_rust::xxh64::xxh64(data, 0)),
            _ => fill(keys, room, |data| self.position(data)),
        }
    }

    /// Return the position by a hash function that may be Python's, and may fail.
    #[inline]
    pub fn position_with(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        match self {
            Hasher::Python(digest, bits) => asked(py, digest, *bits, data),
            _ => Ok(self.position(data)),
        }
    }
}

#[cold]
fn asked(py: Python<'_>, digest: &Py<PyAny>, bits: u32, data: &[u8]) -> PyResult<u64> {
    let hash = digest.bind(py).call1((PyBytes::new(py, data),))?;
    match hash.cast::<PyInt>().map(|hash| hash.extract::<u64>()) {
        Ok(Ok(known)) if known >> (bits - 1) <= 1 => Ok(known << (64 - bits)),
        _ => {
            py.import("apportion.placement.hashers")?.getattr("check_hash")?.call1((hash, bits))?;
            Err(PyRuntimeError::new_err("the reference accepts a hash that the twin refuses"))
        }
    }
}

/// Each hash function has its own copy of this loop, so that the compiler can inline the function.
#[inline(always)]
fn fill(keys: impl Iterator<Item: AsRef<[u8]>>, room: &mut [u64], position: impl Fn(&[u8]) -> u64) {
    for (key, room) in keys.zip(room) {
        *room = position(key.as_ref());
    }
}

fn leading(digest: &[u8]) -> u64 {
    digest[..8].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// CRC-16/XMODEM: polynomial 0x1021, no reflection, from zero.
fn crc16(data: &[u8]) -> u16 {
    data.iter().fold(0, |crc, &byte| crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

static CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};
