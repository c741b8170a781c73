//! `apportion._native`: the native twin of the calls that programs make by the million.
//!
//! Promises: the answers of the Python reference, bit for bit, and its errors. Refuses: state that Python cannot
//! rebuild, and anything beyond the reference. `apportion.native` is the one place that loads it.

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
mod labels;
mod laid;
mod layouts;
mod locator;
mod murmur3;
mod range_router;
mod refusal;
mod rendezvous;
mod ring;
mod router;
mod saved;
mod spread;
mod stretches;
mod text;
mod walk;

use pyo3::prelude::*;

// The interpreter's lock protects lists and strings from other threads while they are read.
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
    use crate::rendezvous::rendezvous_lists;

    #[pymodule_export]
    use crate::router::{Ranking, Router, lay_columns};

    /// How the twin was compiled: `release`, or `debug`, which is many times slower.
    #[pymodule_export]
    const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

    /// The version of the package that the twin was compiled for.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::text::learn_layout(module.py());
        crate::bulk::learn_layout(module.py())
    }
}
