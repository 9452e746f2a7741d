//! Relax functions, as far as they say which tensor functions they call, how often and at which sizes.

use super::{DType, Expr, ExprKind, ops};
use std::collections::BTreeMap;

/// A relax function: what it calls, in program order. Calls of both branches of a conditional are among them.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RelaxFunc {
    /// Its name.
    pub name: String,
    /// Printed with `private=True`: only other functions of the module call it.
    pub private: bool,
    /// What its parameters are.
    pub params: Vec<RelaxType>,
    /// What it calls.
    pub calls: Vec<RelaxCall>,
}

/// A call in a relax function.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RelaxCall {
    /// What is called.
    pub callee: Callee,
    /// What is passed; for a tensor function then the outputs, in the order of its tensors.
    pub args: Vec<RelaxType>,
    /// Values of a tensor function's scalar parameters (`tir_vars`).
    pub scalars: Vec<Expr>,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
}

/// What a call is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Callee {
    /// A tensor function of the module (`R.call_tir(cls.matmul, ...)`).
    Tensor(String),
    /// Another relax function of the module (`cls.layer(...)`).
    Relax(String),
    /// An operator or a packed function (`R.add`, `vm.builtin.alloc_storage`), whose time nobody here knows.
    Other(String),
}

/// What a value is, as far as the text says. Sizes are over the symbols of the function.
#[derive(Clone, PartialEq, Debug)]
pub enum RelaxType {
    /// A tensor of these sizes.
    Tensor(Vec<Expr>),
    /// Several values.
    Tuple(Vec<RelaxType>),
    /// Something else, or nothing is said.
    Unknown,
}

/// Values of symbols.
pub type Symbols = BTreeMap<String, i64>;

impl RelaxFunc {
    /// Symbols in the sizes of parameters.
    pub fn symbols(&self) -> Vec<String> {
        let mut out = vec![];
        let mut note = |e: &Expr| {
            if let Some(name) = e.as_var()
                && !name.as_str().is_empty()
                && !out.contains(&name.to_string())
            {
                out.push(name.to_string());
            }
        };
        tensors(&self.params).into_iter().flatten().for_each(|size| size.visit(&mut note));
        out
    }

    /// What the symbols are where arguments of these sizes are passed.
    pub fn symbols_of(&self, args: &[RelaxType], caller: &Symbols) -> Symbols {
        let mut out = Symbols::new();
        for (param, arg) in tensors(&self.params).into_iter().zip(tensors(args)) {
            for (size, given) in param.iter().zip(arg) {
                if let (Some(name), Some(value)) = (size.as_var(), value(given, caller)) {
                    out.insert(name.to_string(), value);
                }
            }
        }
        out
    }
}

/// The sizes of each tensor, those in tuples among them. What is unknown has none, so that others keep their places.
pub fn tensors(types: &[RelaxType]) -> Vec<&[Expr]> {
    let mut out: Vec<&[Expr]> = vec![];
    for t in types {
        match t {
            RelaxType::Tensor(sizes) => out.push(sizes),
            RelaxType::Tuple(inner) => out.extend(tensors(inner)),
            RelaxType::Unknown => out.push(&[]),
        }
    }
    out
}

/// The number that a size is for some symbols.
pub fn value(size: &Expr, symbols: &Symbols) -> Option<i64> {
    match size.kind() {
        ExprKind::Int { value, .. } => Some(*value),
        ExprKind::Var { name, .. } => symbols.get(name.as_str()).copied(),
        ExprKind::Binary { op, a, b } => {
            let [a, b] = [a, b].map(|e| value(e, symbols).map(|v| Expr::int(v, DType::I64)));
            ops::fold(*op, &a?, &b?)?.as_int()
        }
        _ => None,
    }
}
