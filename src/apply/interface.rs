//! The arguments of a generated launch function: tensors first, then scalars and extents, in the
//! order of the function's parameters; extents that are no parameters come last.

use super::ident::Idents;
use super::lang::Lang;
use super::unit::Unit;
use super::when::When;
use crate::backend::{Arg, Dim, Plan, PlanParam, Role};
use std::collections::BTreeMap;

/// The kernels of a function: for each architecture those that are asked, in order, whether they take a size.
pub type Function<'a> = Vec<&'a [&'a Unit]>;

/// A tensor argument.
pub struct Tensor {
    /// Position among the function's parameters.
    pub index: usize,
    /// Its variable.
    pub ident: String,
    /// Type of an element.
    pub element: &'static str,
    /// The kernel writes it.
    pub written: bool,
    /// Extents, outermost first.
    pub shape: Vec<Dim>,
    /// For the doc comment: `in, float32[2048, 8192]`.
    pub doc: String,
}

/// A scalar argument or an extent.
pub struct Scalar {
    /// Its variable.
    pub ident: String,
    /// Rust type.
    pub ty: &'static str,
    /// For the doc comment.
    pub doc: String,
    /// It is an extent.
    pub is_extent: bool,
}

/// The arguments of a function, the same for all its variants.
pub struct Interface {
    /// What they are written in.
    pub lang: Lang,
    /// Tensors in order.
    pub tensors: Vec<Tensor>,
    /// Scalars and extents in order.
    pub scalars: Vec<Scalar>,
    idents: BTreeMap<String, String>,
}

impl Interface {
    /// The arguments that the kernels of a function take together, of which each has `params`.
    pub fn of(params: &[PlanParam], plans: &[&Plan], lang: Lang) -> Interface {
        let mut scope = Idents::without(lang.taken());
        let mut me = Interface { lang, tensors: vec![], scalars: vec![], idents: BTreeMap::new() };
        for p in params {
            me.idents.insert(p.name.clone(), scope.fresh(&lang.own(&p.name)));
        }
        let shapes = params.iter().flat_map(|p| &p.shape).flat_map(Dim::names);
        for name in shapes.chain(plans.iter().flat_map(|p| extent_names(p))) {
            if !me.idents.contains_key(&name) {
                let ident = scope.fresh(&lang.own(&name));
                me.scalars.push(Scalar {
                    ident: ident.clone(),
                    ty: lang.extent(),
                    doc: "extent".into(),
                    is_extent: true,
                });
                me.idents.insert(name, ident);
            }
        }
        let free = std::mem::take(&mut me.scalars);
        for p in params {
            me.add(p);
        }
        me.scalars.extend(free);
        me
    }

    fn add(&mut self, p: &PlanParam) {
        let (lang, ident) = (self.lang, self.ident(&p.name));
        match p.role {
            Role::In | Role::Out | Role::Inout => {
                let (role, written) = match p.role {
                    Role::In => ("in", false),
                    Role::Out => ("out", true),
                    Role::Inout | Role::Scalar | Role::Extent => ("in and out", true),
                };
                let shape: Vec<String> = p.shape.iter().map(Dim::to_string).collect();
                let doc = format!("{role}, {}[{}]", p.dtype, shape.join(", "));
                self.tensors.push(Tensor {
                    index: p.index,
                    ident,
                    element: lang.element(p.dtype),
                    written,
                    shape: p.shape.clone(),
                    doc,
                });
            }
            Role::Extent => {
                self.scalars.push(Scalar { ident, ty: lang.extent(), doc: "extent".into(), is_extent: true })
            }
            Role::Scalar => self.scalars.push(Scalar {
                ident,
                ty: lang.scalar(p.dtype),
                doc: p.dtype.to_string(),
                is_extent: false,
            }),
        }
    }

    /// The variable of a parameter or extent.
    pub fn ident(&self, name: &str) -> String {
        self.idents.get(name).cloned().unwrap_or_else(|| super::ident::snake(name))
    }

    /// The argument that is the tensor at a position among the parameters.
    ///
    /// # Errors
    /// A sentence, when that is no tensor.
    pub fn position(&self, param: usize) -> Result<usize, String> {
        self.tensors.iter().position(|t| t.index == param).ok_or_else(|| format!("parameter {param} is no tensor"))
    }

    /// An extent as an expression.
    ///
    /// # Errors
    /// A sentence, when it cannot be written.
    pub fn extent(&self, dim: &Dim) -> Result<String, String> {
        self.lang.dim(dim, &|n| self.ident(n))
    }

    /// The number of elements of a tensor, a Rust expression of type `i64`.
    ///
    /// # Errors
    /// As of [`Interface::extent`].
    pub fn len(&self, tensor: &Tensor) -> Result<String, String> {
        let shape = &tensor.shape;
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
        self.scalars.iter().filter(|s| s.is_extent).map(|s| s.ident.as_str())
    }

    /// `n: usize, alpha: f32`, each with a leading comma: what callers see.
    pub fn scalar_params(&self) -> String {
        self.scalars.iter().map(|s| format!(", {}: {}", s.ident, s.ty)).collect()
    }

    /// `n: i64, alpha: f32`, each with a leading comma: what is passed on inside.
    pub fn inner_params(&self) -> String {
        let ty = |s: &Scalar| if s.is_extent { "i64" } else { s.ty };
        self.scalars.iter().map(|s| format!(", {}: {}", s.ident, ty(s))).collect()
    }

    /// `n, alpha`, each with a leading comma.
    pub fn scalar_values(&self) -> String {
        self.scalars.iter().map(|s| format!(", {}", s.ident)).collect()
    }

    /// `n as usize, alpha`, each with a leading comma: inner values for what callers see.
    pub fn outer_values(&self) -> String {
        let value = |s: &Scalar| if s.is_extent { format!(", {} as usize", s.ident) } else { format!(", {}", s.ident) };
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
        when.condition(&|name| self.ident(name))
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

/// The kernels of one function by target.
pub fn by_target<'a>(all: &'a [&'a Unit]) -> Function<'a> {
    all.chunk_by(|a, b| a.target.id == b.target.id).collect()
}

/// The kernels of each function, functions in order of name.
pub fn by_name<'a>(units: impl Iterator<Item = &'a Unit>) -> Vec<Vec<&'a Unit>> {
    let mut groups: BTreeMap<&str, Vec<&Unit>> = BTreeMap::new();
    for u in units {
        groups.entry(&u.name).or_default().push(u);
    }
    // The newest GPU comes first, so that a device takes the nearest of those that it can run.
    groups.values_mut().for_each(|g| g.sort_by_key(|u| std::cmp::Reverse(u.target.sm)));
    groups.into_values().collect()
}

/// The arguments of a function's kernels.
pub fn interface(f: &Function<'_>, lang: Lang) -> Interface {
    let units = || f.iter().copied().flatten();
    let plans: Vec<&Plan> = units().map(|u| &u.plan).collect();
    Interface::of(units().next().map_or(&[], |u| &u.params), &plans, lang)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

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
        let i = Interface::of(&plan.params, &[&plan], Lang::Rust);
        let tensor = |t: &Tensor| (t.ident.clone(), i.len(t).unwrap(), t.written);
        let tensors: Vec<(String, String, bool)> = i.tensors.iter().map(tensor).collect();
        let want = [("a", "product(&[n, 4])", false), ("b", "product(&[n + m])", true)];
        assert_eq!(tensors, want.map(|(name, len, written)| (name.to_string(), len.to_string(), written)));
        assert_eq!(i.scalar_params(), ", alpha: f32, n: usize, m: usize");
        assert_eq!(i.docs().next().as_deref(), Some("`a`: in, float32[n, 4]"));
    }

    #[test]
    fn arguments_are_no_words_of_the_language() {
        let names = ["class", "match", "kernels", "dl_launch", "size_t", "n"];
        let params: Vec<PlanParam> =
            names.iter().enumerate().map(|(k, name)| param(k, name, &["4"], Role::In)).collect();
        let idents = |lang| -> Vec<String> {
            let i = Interface::of(&params, &[], lang);
            i.tensors.iter().map(|t| t.ident.clone()).collect()
        };
        assert_eq!(idents(Lang::Rust), ["class", "match_", "kernels_2", "dl_launch", "size_t", "n"]);
        assert_eq!(idents(Lang::C), ["class_2", "match_", "kernels_2", "x_dl_launch", "size_t_2", "n"]);
    }
}
