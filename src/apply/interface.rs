//! The arguments of a generated launch function: tensors first, then scalars and extents, in the
//! order of the function's parameters; extents that are no parameters come last.

use super::ident::Idents;
use super::unit::Unit;
use super::when::When;
use crate::backend::{Arg, Dim, Plan, PlanParam, Role};
use crate::ir::DType;
use std::collections::BTreeMap;

/// Variables and functions that the generated functions use themselves.
const LOCALS: [&str; 21] = [
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
    "pool",
    "product",
    "run_grid",
    "scalars",
    "scratch",
    "self",
    "std",
    "stream",
    "tensors",
    "threads",
    "workspace",
];

/// Rust type of an extent where callers see it; inside it is an `i64`.
const EXTENT: &str = "usize";

/// The kernels of a function: for each architecture those that are asked, in order, whether they take a size.
pub type Function<'a> = Vec<&'a [&'a Unit]>;

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
    /// The arguments that the kernels of a function take together, of which each has `params`.
    ///
    /// # Errors
    /// A sentence, when an extent cannot be written in Rust.
    pub fn of(params: &[PlanParam], plans: &[&Plan]) -> Result<Interface, String> {
        let mut scope = Idents::without(&LOCALS);
        let mut me = Interface { tensors: vec![], scalars: vec![], idents: BTreeMap::new() };
        for p in params {
            me.idents.insert(p.name.clone(), scope.fresh(&p.name));
        }
        let shapes = params.iter().flat_map(|p| &p.shape).flat_map(Dim::names);
        for name in shapes.chain(plans.iter().flat_map(|p| extent_names(p))) {
            if !me.idents.contains_key(&name) {
                let ident = scope.fresh(&name);
                me.scalars.push(Scalar { ident: ident.clone(), rust: EXTENT, doc: "extent".into() });
                me.idents.insert(name, ident);
            }
        }
        let free = std::mem::take(&mut me.scalars);
        for p in params {
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
            Role::Extent => self.scalars.push(Scalar { ident, rust: EXTENT, doc: "extent".into() }),
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

    /// Variables of the extents.
    fn extents(&self) -> impl Iterator<Item = &str> {
        self.scalars.iter().filter(|s| s.doc == "extent").map(|s| s.ident.as_str())
    }

    /// `n: usize, alpha: f32`, each with a leading comma: what callers see.
    pub fn scalar_params(&self) -> String {
        self.scalars.iter().map(|s| format!(", {}: {}", s.ident, s.rust)).collect()
    }

    /// `n: i64, alpha: f32`, each with a leading comma: what is passed on inside.
    pub fn inner_params(&self) -> String {
        let rust = |s: &Scalar| if s.rust == EXTENT { "i64" } else { s.rust };
        self.scalars.iter().map(|s| format!(", {}: {}", s.ident, rust(s))).collect()
    }

    /// `n, alpha`, each with a leading comma.
    pub fn scalar_values(&self) -> String {
        self.scalars.iter().map(|s| format!(", {}", s.ident)).collect()
    }

    /// `n as usize, alpha`, each with a leading comma: inner values for what callers see.
    pub fn outer_values(&self) -> String {
        let value =
            |s: &Scalar| if s.rust == EXTENT { format!(", {} as usize", s.ident) } else { format!(", {}", s.ident) };
        self.scalars.iter().map(value).collect()
    }

    /// Lines that make inner values of the extents that a caller passes; `checked` where they may be anything.
    pub fn extent_lines(&self, checked: bool) -> impl Iterator<Item = String> + '_ {
        self.extents().map(move |e| match checked {
            true => format!("let {e} = extent(\"{e}\", {e})?;"),
            false => format!("let {e} = {e} as i64;"),
        })
    }

    /// The condition on the extents under which a kernel is launched; `None` where it always is.
    pub fn condition(&self, when: &When) -> Option<String> {
        when.rust(&|name| self.ident(name))
    }

    /// The bodies of the kernels of one architecture, each under the condition of the sizes that it takes.
    ///
    /// # Errors
    /// What a body says.
    pub fn by_size(
        &self,
        units: &[&Unit],
        mut body: impl FnMut(&Unit) -> Result<String, String>,
    ) -> Result<String, String> {
        let mut out = String::new();
        for u in units {
            let text = body(u)?;
            let Some(condition) = self.condition(&u.when) else { return Ok(out + &text + "        Ok(())\n") };
            let indented: String = text.lines().map(|l| format!("    {l}\n")).collect();
            out.push_str(&format!("        if {condition} {{\n{indented}            return Ok(());\n        }}\n"));
        }
        let sizes: Vec<String> = units.iter().map(|u| u.when.words().replacen(" for ", "", 1)).collect();
        let text = format!("there are kernels for {} alone", sizes.join("; "));
        Ok(out + &format!("        Err(Error::Argument(\"{text}\".into()))\n"))
    }

    /// Lines of a doc comment, one per argument.
    pub fn docs(&self) -> impl Iterator<Item = String> + '_ {
        let tensors = self.tensors.iter().map(|t| format!("`{}`: {}", t.ident, t.doc));
        tensors.chain(self.scalars.iter().map(|s| format!("`{}`: {}", s.ident, s.doc)))
    }
}

/// The arguments of a function's kernels.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust.
pub fn interface(f: &Function<'_>) -> Result<Interface, String> {
    let units = || f.iter().copied().flatten();
    let plans: Vec<&Plan> = units().map(|u| &u.plan).collect();
    Interface::of(units().next().map_or(&[], |u| &u.params), &plans)
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
        let i = Interface::of(&plan.params, &[&plan]).unwrap();
        let tensors: Vec<(&str, &str, bool)> =
            i.tensors.iter().map(|t| (t.ident.as_str(), t.len.as_str(), t.written)).collect();
        assert_eq!(tensors, [("a", "product(&[n, 4])", false), ("b", "product(&[n + m])", true)]);
        assert_eq!(i.scalar_params(), ", alpha: f32, n: usize, m: usize");
        assert_eq!(i.docs().next().as_deref(), Some("`a`: in, float32[n, 4]"));
    }
}
