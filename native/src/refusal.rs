//! Errors of the reference: the twin calls the Python function that refuses, and passes its error on.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Return the error that a function of the reference raises for these values.
#[cold]
pub fn refusal<'py, A>(py: Python<'py>, module: &str, function: &str, values: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let raised = || py.import(module)?.getattr(function)?.call1(values);
    match raised() {
        Err(error) => error,
        Ok(_) => PyRuntimeError::new_err(format!("{module}.{function} accepts values that the native twin refuses")),
    }
}
