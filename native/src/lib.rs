//! `apportion._native`: the native twin of the calls that are made by the million.
//!
//! Promises: the answers of the reference in Python, bit for bit, and its errors. Refuses: state that Python cannot
//! rebuild, and anything that the reference does not do. `apportion.native` is the one place that loads it.

mod answers;
mod balance;
mod bounded;
mod bounds;
mod buckets;
mod bulk;
mod calls;
mod choose_k;
mod chooser;
mod circle;
mod cuts;
mod difference;
mod fetch;
mod groups;
mod hash;
mod helix;
mod key;
mod laid;
mod layouts;
mod locator;
mod murmur3;
mod range_router;
mod ranking;
mod refusal;
mod ring;
mod router;
mod saved;
mod spread;
mod stretches;
mod text;
mod walk;

use pyo3::prelude::*;

// Lists and strings are read while the interpreter's lock keeps others from them.
#[pymodule(gil_used = true)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::balance::{choose_leaders, solve_flow};

    #[pymodule_export]
    use crate::bounded::filled;

    #[pymodule_export]
    use crate::calls::{folded, keys_handled, position, positions};

    #[pymodule_export]
    use crate::difference::{changes, ranges, table_changes, widths};

    #[pymodule_export]
    use crate::chooser::{Chooser, log2_fixed};

    #[pymodule_export]
    use crate::groups::grouped;

    #[pymodule_export]
    use crate::helix::{circle_tokens, crush_lists, draw_straws, java_hash};

    #[pymodule_export]
    use crate::range_router::RangeRouter;

    #[pymodule_export]
    use crate::ranking::rendezvous_lists;

    #[pymodule_export]
    use crate::router::{Ranking, Router, lay_columns};

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
