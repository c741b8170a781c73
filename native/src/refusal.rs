//! Errors of the reference: the twin calls the function of Python that refuses, and hands its error on.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The error that a function of the reference raises when it is called with these values.
pub fn refusal<'py, A>(py: Python<'py>, module: &str, function: &str, values: A) -> PyErr
where
    A: pyo3::call::PyCallArgs<'py>,
{
    let raised = || py.import(module)?.getattr(function)?.call1(values);
    match raised() {
        Err(error) => error,
        Ok(_) => PyRuntimeError::new_err(format!("{module}.{function} accepts what the native twin refuses")),
    }
}
