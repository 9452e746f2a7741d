//! Tensors of a function that is being built.

use crate::ir::{DType, Expr, Name};
use std::borrow::Borrow;

/// A parameter or an intermediate of a function that is being built.
#[derive(Clone, Debug)]
pub struct TensorVar {
    pub(super) name: Name,
    pub(super) dtype: DType,
    pub(super) shape: Vec<Expr>,
}

impl TensorVar {
    /// The element at these indices, one per dimension.
    pub fn at(&self, indices: impl IntoIterator<Item = impl Borrow<Expr>>) -> Expr {
        let indices = indices.into_iter().map(|i| i.borrow().clone()).collect();
        Expr::load(self.name.clone(), indices, self.dtype)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &[Expr] {
        &self.shape
    }
}
