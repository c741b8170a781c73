//! `apportion._native`: the native twin of the calls that are made by the million.
//!
//! Promises: the answers of the reference in Python, bit for bit, and its errors. Refuses: state that Python cannot
//! rebuild, and anything that the reference does not do. `apportion.placement.native` is the one place that loads it.

mod bulk;
mod calls;
mod hash;
mod key;
mod murmur3;
mod text;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::calls::{keys_handled, position, positions};

    /// How it was compiled: `release`, or `debug`, which is many times slower.
    #[pymodule_export]
    const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

    /// The version of the package that it was compiled for.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::text::learn_layout(module.py());
        crate::bulk::learn_layout(module.py())
    }
}
