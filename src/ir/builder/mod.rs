//! Functions without text: a builder that makes a [`PrimFunc`] as reading its print would.

mod block;
mod math;
mod tensor;

pub use block::{BlockBuilder, Reducer};
pub use tensor::TensorVar;

use super::print::is_reserved;
use super::{AttrValue, Buffer, DType, Expr, Extent, Name, Param, PrimFunc, Scope, Stmt, canonicalize, verify};
use std::collections::{BTreeMap, BTreeSet};

/// Makes a tensor function step by step: parameters and intermediates, then blocks in the order in which they run.
///
/// What is wrong with a step is said by [`PrimFuncBuilder::finish`].
///
/// ```
/// # mod daylight { pub use daylight_ir as ir; }
/// use daylight::ir::{DType, Expr, Intrin, PrimFuncBuilder, Reducer};
///
/// // y[i] = sqrt(sum over k of x[i, k]^2)
/// let mut f = PrimFuncBuilder::new("row_norms");
/// let n = f.extent("n");
/// let x = f.param("x", DType::F32, [n.clone(), 4096.into()]);
/// let y = f.param("y", DType::F32, [n.clone()]);
/// let squares = f.intermediate("squares", DType::F32, [n]);
/// f.reduce("sum", &squares, &[Expr::i64(4096)], Reducer::Sum, |i, k| {
///     let value = x.at([&i[0], &k[0]]);
///     value.clone() * value
/// });
/// f.compute("root", &y, |i| squares.at(i).math(Intrin::Sqrt));
/// let func = f.finish()?;
/// assert!(func.to_string().contains("y[v_i0] = T.sqrt(squares[v_i0])"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrimFuncBuilder {
    func: PrimFunc,
    /// Names handed out.
    names: usize,
    /// The first name that is none.
    unfit: Option<String>,
}

impl PrimFuncBuilder {
    /// A function of that name without parameters. As TVM prints it, it says that its tensors do not overlap.
    pub fn new(name: impl Into<String>) -> PrimFuncBuilder {
        let func = PrimFunc {
            name: name.into(),
            private: false,
            params: vec![],
            buffers: vec![],
            extents: vec![],
            attrs: vec![("tirx.noalias".into(), AttrValue::Bool(true))],
            allocs: vec![],
            body: vec![],
            display: BTreeMap::new(),
        };
        let unfit = (!is_identifier(&func.name)).then(|| func.name.clone());
        PrimFuncBuilder { func, names: 0, unfit }
    }

    /// A size that is known at run time, `int64`. The same name gives the same size.
    pub fn extent(&mut self, name: &str) -> Expr {
        let known = self.func.extents.iter().find(|e| self.func.display_name(&e.name) == name);
        let name = known.map(|e| e.name.clone()).unwrap_or_else(|| {
            let new = self.name(name);
            self.func.extents.push(Extent { name: new.clone(), dtype: DType::I64 });
            new
        });
        Expr::var(name, DType::I64)
    }

    /// The next parameter, a scalar.
    pub fn scalar(&mut self, name: &str, dtype: DType) -> Expr {
        let name = self.name(name);
        self.func.params.push(Param::Scalar { name: name.clone(), dtype });
        Expr::var(name, dtype)
    }

    /// The next parameter, a tensor with row-major elements; each extent is `int64`. It is an output where blocks store to it.
    pub fn param(&mut self, name: &str, dtype: DType, shape: impl IntoIterator<Item = Expr>) -> TensorVar {
        let tensor = self.tensor(name, dtype, shape);
        self.func.params.push(Param::Buffer(tensor.name.clone()));
        tensor
    }

    /// A tensor that lives while the function runs.
    pub fn intermediate(&mut self, name: &str, dtype: DType, shape: impl IntoIterator<Item = Expr>) -> TensorVar {
        let tensor = self.tensor(name, dtype, shape);
        self.func.allocs.push(tensor.name.clone());
        tensor
    }

    /// The next block: `body` says its axes, then what it stores.
    pub fn block(&mut self, name: &str, body: impl FnOnce(&mut BlockBuilder<'_>)) {
        let name = self.name(name);
        let mut block = BlockBuilder::new(self, name);
        body(&mut block);
        let stmt = block.finish();
        self.func.body.push(stmt);
    }

    /// A block that stores `value` of an element's indices to each element of `to`.
    pub fn compute(&mut self, name: &str, to: &TensorVar, value: impl FnOnce(&[Expr]) -> Expr) {
        self.block(name, |b| {
            let axes = b.spatial_all(to.shape());
            b.store(to, &axes, value(&axes));
        });
    }

    /// A block that stores to each element of `to` all values at it combined: `value` of the element's indices and of indices below
    /// `over`.
    pub fn reduce(
        &mut self,
        name: &str,
        to: &TensorVar,
        over: &[Expr],
        reducer: Reducer,
        value: impl FnOnce(&[Expr], &[Expr]) -> Expr,
    ) {
        self.block(name, |b| {
            let axes = b.spatial_all(to.shape());
            let steps = b.reduce_all(over);
            b.init(to, &axes, reducer.identity(to.dtype()));
            b.store(to, &axes, reducer.combine(to.at(&axes), value(&axes, &steps)));
        });
    }

    /// The function, canonically named, as [`super::read`] gives it.
    ///
    /// # Errors
    /// A sentence: a name that is no identifier or stands twice, an extent that no parameter has, types or numbers of indices that do not agree.
    pub fn finish(self) -> Result<PrimFunc, String> {
        let function = &self.func.name;
        if let Some(name) = self.unfit {
            return Err(format!(
                "`{name}` is no name for a function or a part of one: letters, digits and _, no digit first, no word of Python or TVM"
            ));
        }
        if let Some(name) = self.twice() {
            return Err(format!(
                "{function}: the name `{name}` stands twice; every size, scalar and tensor has its own"
            ));
        }
        let open = self.func.extents.iter().find(|e| !self.func.buffer_params().any(|b| has_extent(b, &e.name)));
        if let Some(extent) = open {
            let extent = self.func.display_name(&extent.name);
            return Err(format!(
                "{function}: no parameter has the extent `{extent}` as a dimension, so that nobody can tell it"
            ));
        }
        let shown = |e: &super::VerifyError| format!("{}: {}", self.func.display_name(&e.at), e.message);
        verify(&self.func).map_err(|all| {
            let all: Vec<String> = all.iter().map(shown).collect();
            format!("{function}: {}", all.join("; "))
        })?;
        Ok(canonicalize(self.func))
    }

    /// A name that two of sizes, scalars and tensors have.
    fn twice(&self) -> Option<&str> {
        let scalars = self.func.params.iter().filter_map(|p| match p {
            Param::Scalar { name, .. } => Some(name),
            Param::Buffer(_) => None,
        });
        let tensors = self.func.buffers.iter().map(|b| &b.name);
        let all = self.func.extents.iter().map(|e| &e.name).chain(scalars).chain(tensors);
        let mut seen = BTreeSet::new();
        all.map(|n| self.func.display_name(n)).find(|shown| !seen.insert(*shown))
    }

    fn tensor(&mut self, name: &str, dtype: DType, shape: impl IntoIterator<Item = Expr>) -> TensorVar {
        let tensor = TensorVar { name: self.name(name), dtype, shape: shape.into_iter().collect() };
        self.func.buffers.push(Buffer::new(tensor.name.clone(), dtype, tensor.shape.clone(), Scope::Global));
        tensor
    }

    /// A new name that shows as `text`.
    fn name(&mut self, text: &str) -> Name {
        if self.unfit.is_none() && !is_identifier(text) {
            self.unfit = Some(text.to_string());
        }
        let name = Name::new(format!("u{}", self.names));
        self.names += 1;
        self.func.display.insert(name.clone(), text.to_string());
        name
    }
}

/// True where a dimension is the extent and nothing else.
fn has_extent(buffer: &Buffer, extent: &Name) -> bool {
    buffer.shape.iter().any(|e| e.as_var() == Some(extent))
}

fn is_identifier(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !is_reserved(text)
}

/// A nest of loops around one statement.
fn nest(loops: Vec<super::For>, inner: Stmt) -> Stmt {
    loops.into_iter().rev().fold(inner, |body, l| Stmt::For(super::For { body: vec![body], ..l }))
}
