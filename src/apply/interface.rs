//! The arguments of a generated launch function: tensors first, then scalars and extents, in the
//! order of the function's parameters; extents that are no parameters come last.

use super::ident::Idents;
use crate::backend::{Arg, Dim, Plan, PlanParam, Role};
use crate::ir::DType;
use std::collections::BTreeMap;

/// Variables and functions that the generated functions use themselves.
const LOCALS: [&str; 19] = [
    "args",
    "buffers",
    "bytes",
    "check",
    "device",
    "extent",
    "kernels",
    "len",
    "need",
    "pointer",
    "product",
    "run_grid",
    "scalars",
    "self",
    "std",
    "stream",
    "tensors",
    "threads",
    "workspace",
];

/// A tensor argument.
pub struct Tensor {
    /// Position among the function's parameters.
    pub index: usize,
    /// Its variable.
    pub ident: String,
    /// Rust type of an element.
    pub element: &'static str,
    /// The kernel writes it.
    pub written: bool,
    /// Number of elements, a Rust expression of type `i64`.
    pub len: String,
    /// For the doc comment: `in, float32[2048, 8192]`.
    pub doc: String,
}

/// A scalar argument or an extent.
pub struct Scalar {
    /// Its variable.
    pub ident: String,
    /// Rust type.
    pub rust: &'static str,
    /// For the doc comment.
    pub doc: String,
}

/// The arguments of a function, the same for all its variants.
pub struct Interface {
    /// Tensors in order.
    pub tensors: Vec<Tensor>,
    /// Scalars and extents in order.
    pub scalars: Vec<Scalar>,
    idents: BTreeMap<String, String>,
}

impl Interface {
    /// The arguments that the variants of a function take together.
    ///
    /// # Errors
    /// A sentence, when an extent cannot be written in Rust.
    pub fn of(plans: &[&Plan]) -> Result<Interface, String> {
        let first = plans.first().ok_or("a function without variants has no arguments")?;
        let mut scope = Idents::without(&LOCALS);
        let mut me = Interface { tensors: vec![], scalars: vec![], idents: BTreeMap::new() };
        for p in &first.params {
            me.idents.insert(p.name.clone(), scope.fresh(&p.name));
        }
        for name in plans.iter().flat_map(|p| extent_names(p)) {
            if !me.idents.contains_key(&name) {
                let ident = scope.fresh(&name);
                me.scalars.push(Scalar { ident: ident.clone(), rust: "i64", doc: "extent".into() });
                me.idents.insert(name, ident);
            }
        }
        let free = std::mem::take(&mut me.scalars);
        for p in &first.params {
            me.add(p)?;
        }
        me.scalars.extend(free);
        Ok(me)
    }

    fn add(&mut self, p: &PlanParam) -> Result<(), String> {
        let ident = self.ident(&p.name);
        match p.role {
            Role::In | Role::Out | Role::Inout => {
                let (role, written) = match p.role {
                    Role::In => ("in", false),
                    Role::Out => ("out", true),
                    Role::Inout | Role::Scalar | Role::Extent => ("in and out", true),
                };
                let shape: Vec<String> = p.shape.iter().map(Dim::to_string).collect();
                let doc = format!("{role}, {}[{}]", p.dtype, shape.join(", "));
                let len = self.product(&p.shape)?;
                self.tensors.push(Tensor { index: p.index, ident, element: element(p.dtype), written, len, doc });
            }
            Role::Extent => self.scalars.push(Scalar { ident, rust: "i64", doc: "extent".into() }),
            Role::Scalar => self.scalars.push(Scalar { ident, rust: scalar(p.dtype), doc: p.dtype.to_string() }),
        }
        Ok(())
    }

    /// The variable of a parameter or extent.
    pub fn ident(&self, name: &str) -> String {
        self.idents.get(name).cloned().unwrap_or_else(|| super::ident::snake(name))
    }

    /// An extent as a Rust expression.
    ///
    /// # Errors
    /// A sentence, when it cannot be written in Rust.
    pub fn extent(&self, dim: &Dim) -> Result<String, String> {
        dim.rust(&|n| self.ident(n))
    }

    fn product(&self, shape: &[Dim]) -> Result<String, String> {
        match shape.iter().map(Dim::as_const).product::<Option<i64>>() {
            Some(n) => Ok(n.to_string()),
            None => {
                let factors: Result<Vec<String>, String> = shape.iter().map(|d| self.extent(d)).collect();
                Ok(format!("product(&[{}])", factors?.join(", ")))
            }
        }
    }

    /// Variables of the extents, which a safe function checks first.
    pub fn extents(&self) -> impl Iterator<Item = &str> {
        self.scalars.iter().filter(|s| s.doc == "extent").map(|s| s.ident.as_str())
    }

    /// `n: i64, alpha: f32`, each with a leading comma.
    pub fn scalar_params(&self) -> String {
        self.scalars.iter().map(|s| format!(", {}: {}", s.ident, s.rust)).collect()
    }

    /// `n, alpha`, each with a leading comma.
    pub fn scalar_values(&self) -> String {
        self.scalars.iter().map(|s| format!(", {}", s.ident)).collect()
    }

    /// Lines of a doc comment, one per argument.
    pub fn docs(&self) -> impl Iterator<Item = String> + '_ {
        let tensors = self.tensors.iter().map(|t| format!("`{}`: {}", t.ident, t.doc));
        tensors.chain(self.scalars.iter().map(|s| format!("`{}`: {}", s.ident, s.doc)))
    }
}

/// Names of extents and scalars that a plan needs, in order of first use.
fn extent_names(plan: &Plan) -> Vec<String> {
    let shapes = plan.params.iter().flat_map(|p| &p.shape);
    let sizes = plan.workspaces.iter().map(|w| &w.bytes);
    let launches = plan.launches.iter().flat_map(|l| l.grid.iter().chain(&l.block).chain([&l.dynamic_smem]));
    let mut names: Vec<String> = shapes.chain(sizes).chain(launches).flat_map(Dim::names).collect();
    for arg in plan.launches.iter().flat_map(|l| &l.args) {
        match arg {
            Arg::Scalar { scalar, .. } => names.push(scalar.clone()),
            Arg::Param { .. } | Arg::Workspace { .. } | Arg::TensorMap { .. } => {}
        }
    }
    names
}

/// Rust type of a tensor's elements.
fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 | DType::E4M3 | DType::E5M2 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 | DType::Handle => "u64",
        DType::F16 => "half::f16",
        DType::BF16 => "half::bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
    }
}

/// Rust type of a scalar parameter.
fn scalar(dtype: DType) -> &'static str {
    if dtype == DType::Bool { "bool" } else { element(dtype) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn param(index: usize, name: &str, shape: &[&str], role: Role) -> PlanParam {
        let shape = shape.iter().map(|s| s.parse().map_or_else(|_| s.parse().unwrap(), Dim::Const)).collect();
        PlanParam { index, name: name.into(), dtype: DType::F32, shape, role }
    }

    #[test]
    fn tensors_come_first_and_free_extents_last() {
        let params = vec![
            param(0, "A", &["n", "4"], Role::In),
            param(1, "alpha", &[], Role::Scalar),
            param(2, "B", &["n + m"], Role::Out),
        ];
        let plan = Plan { params, ..Plan::default() };
        let i = Interface::of(&[&plan]).unwrap();
        let tensors: Vec<(&str, &str, bool)> =
            i.tensors.iter().map(|t| (t.ident.as_str(), t.len.as_str(), t.written)).collect();
        assert_eq!(tensors, [("a", "product(&[n, 4])", false), ("b", "product(&[n + m])", true)]);
        assert_eq!(i.scalar_params(), ", alpha: f32, n: i64, m: i64");
        assert_eq!(i.docs().next().as_deref(), Some("`a`: in, float32[n, 4]"));
    }
}
