//! Functions.

use super::ast::{Def, Node, NodeKind, PyParam, PyStmt, PyStmtKind};
use super::block::BlockParts;
use super::buffer::dtype_named;
use super::error::{Problem, Span, problem};
use super::scope::{Binding, Scope};
use super::stmt::filled;
use crate::ir::{AttrValue, Block, Name, Param, PrimFunc, Stmt};

/// One function under construction.
pub(super) struct Function<'a> {
    pub scope: Scope<'a>,
    /// `None` for a handle that no `T.match_buffer` has taken yet.
    pub params: Vec<Option<Param>>,
    pub attrs: Vec<(String, AttrValue)>,
}

impl Function<'_> {
    /// Reads a tensor function.
    pub fn read(mut self, def: &Def, private: bool) -> Result<PrimFunc, Problem> {
        self.header(def)?;
        let (parts, body) = self.body(&def.body)?;
        self.all_matched(def)?;
        if let Some(what) = parts.misplaced() {
            let at = def.body.first().map_or_else(Span::default, |s| s.at);
            return problem(at, format!("{what} belongs inside a block, not at the top of function `{}`", def.name));
        }
        let first_use = std::mem::take(&mut self.scope.first_use);
        let f = self.finish(def, private, parts, body);
        for (extent, at) in f.extents.iter().zip(first_use) {
            if !has_value(&f, &extent.name) {
                let user = f.display_name(&extent.name);
                return problem(at, format!("`{user}` has no value: the shape of no parameter speaks of it"));
            }
        }
        Ok(f)
    }

    /// The parameters.
    pub fn header(&mut self, def: &Def) -> Result<(), Problem> {
        self.declarations(&def.body)?;
        // Scalars first: a shape may speak of one that follows it.
        for p in &def.params {
            self.scalar(p)?;
        }
        def.params.iter().enumerate().try_for_each(|(k, p)| self.param(k, p))
    }

    /// Refuses a handle that is no buffer.
    pub fn all_matched(&self, def: &Def) -> Result<(), Problem> {
        let Some(k) = self.params.iter().position(Option::is_none) else { return Ok(()) };
        let p = &def.params[k];
        problem(p.at, format!("parameter `{0}` has no shape; write `A = T.match_buffer({0}, ...)`", p.name))
    }

    /// Names declared anywhere at the top of the body are known in the header already.
    fn declarations(&mut self, body: &[PyStmt]) -> Result<(), Problem> {
        for s in body {
            if let PyStmtKind::Assign { target, value } = &s.kind {
                self.scope.declares(target, value)?;
            }
        }
        Ok(())
    }

    fn scalar(&mut self, p: &PyParam) -> Result<(), Problem> {
        let dtype = match &p.annotation {
            Some(n) => n.tir_name().or_else(|| n.tir_call().filter(|c| c.1.is_empty()).map(|c| c.0)),
            None => None,
        };
        let name = match dtype.as_deref() {
            None | Some("handle" | "Buffer") => None,
            Some(text) => Some((text, p.annotation.as_ref().map_or(p.at, |n| n.at))),
        };
        let param = match name {
            Some((text, at)) => {
                let dtype = dtype_named(text, at)?;
                Some(Param::Scalar { name: self.scope.bind_var(&p.name, dtype), dtype })
            }
            None => None,
        };
        self.params.push(param);
        Ok(())
    }

    fn param(&mut self, k: usize, p: &PyParam) -> Result<(), Problem> {
        if self.params[k].is_some() {
            return Ok(());
        }
        let form = "a parameter is written `name: T.Buffer((n, m), \"float32\")` or `name: T.<dtype>`";
        let Some(annotation) = &p.annotation else { return problem(p.at, form) };
        if annotation.tir_name().as_deref() == Some("handle") {
            self.scope.bind(&p.name, Binding::Handle(k));
            return Ok(());
        }
        let (args, keywords): (&[Node], &[(String, Node)]) = match &annotation.kind {
            NodeKind::Index(base, items) if base.tir_name().as_deref() == Some("Buffer") => (items, &[]),
            NodeKind::Call { func, args, keywords } if func.tir_name().as_deref() == Some("Buffer") => (args, keywords),
            NodeKind::Call { func, .. } if func.tir_name().as_deref() == Some("handle") => {
                self.scope.bind(&p.name, Binding::Handle(k));
                return Ok(());
            }
            _ => return problem(annotation.at, form),
        };
        let name = self.scope.declare_buffer(&p.name, args, keywords, crate::ir::Scope::Global, annotation.at)?;
        self.scope.bind(&p.name, Binding::Buffer(name.clone()));
        self.params[k] = Some(Param::Buffer(name));
        Ok(())
    }

    /// The statements of the root block, after `T.func_attr` and `T.match_buffer` of parameters.
    fn body(&mut self, stmts: &[PyStmt]) -> Result<(BlockParts, Vec<Stmt>), Problem> {
        let mut parts = BlockParts::default();
        let mut out = vec![];
        let mut start = 0;
        for (k, s) in stmts.iter().enumerate() {
            if self.function_part(s)? {
                out.extend(self.scope.block_body(&stmts[start..k], &mut parts)?);
                start = k + 1;
            }
        }
        out.extend(self.scope.block_body(&stmts[start..], &mut parts)?);
        Ok((parts, out))
    }

    /// `T.func_attr(...)` or the `T.match_buffer` of a parameter; true when it was one.
    pub fn function_part(&mut self, s: &PyStmt) -> Result<bool, Problem> {
        match &s.kind {
            PyStmtKind::Expr(n) => match n.tir_call() {
                Some((name, [dict], _)) if name == "func_attr" => {
                    self.attrs.extend(self.scope.attr_dict(dict)?);
                    Ok(true)
                }
                _ => Ok(false),
            },
            PyStmtKind::Assign { target, value } => match (value.tir_call(), &target.kind) {
                (Some((name, [handle, rest @ ..], keywords)), NodeKind::Name(user)) if name == "match_buffer" => {
                    self.matched(user, handle, rest, keywords, value.at)
                }
                _ => Ok(false),
            },
            _ => Ok(false),
        }
    }

    /// `A = T.match_buffer(a, ...)` of a handle parameter.
    fn matched(
        &mut self,
        user: &str,
        handle: &Node,
        rest: &[Node],
        keywords: &[(String, Node)],
        at: Span,
    ) -> Result<bool, Problem> {
        let Some(source) = handle.dotted() else { return Ok(false) };
        let Some(Binding::Handle(k)) = self.scope.lookup(&source).cloned() else { return Ok(false) };
        if self.params[k].is_some() {
            return problem(handle.at, format!("`{source}` has a T.match_buffer already"));
        }
        let name = self.scope.declare_buffer(user, rest, keywords, crate::ir::Scope::Global, at)?;
        self.scope.bind(user, Binding::Buffer(name.clone()));
        self.params[k] = Some(Param::Buffer(name));
        Ok(true)
    }

    fn finish(self, def: &Def, private: bool, parts: BlockParts, body: Vec<Stmt>) -> PrimFunc {
        let mut root = parts.build(Name::new("root"), filled(body));
        if let [Stmt::Block(b)] = root.body.as_slice()
            && root.allocs.is_empty()
            && self.scope.display.get(&b.name).is_some_and(|n| n == "root")
            && is_plain(b)
        {
            root = b.clone();
        }
        let mut f = PrimFunc {
            name: def.name.clone(),
            private,
            params: self.params.into_iter().flatten().collect(),
            buffers: self.scope.buffers,
            extents: self.scope.extents,
            attrs: self.attrs,
            allocs: root.allocs,
            body: root.body,
            display: self.scope.display,
        };
        take_symbol(&mut f);
        f
    }
}

/// True when a parameter or an alias of a region tells what an extent is.
fn has_value(f: &PrimFunc, extent: &Name) -> bool {
    let mut sources: Vec<&Name> = vec![];
    for p in &f.params {
        if let Param::Buffer(name) = p {
            sources.push(name);
        }
    }
    let mut aliases = vec![];
    f.visit(&mut |s| {
        if let Stmt::Block(b) = s {
            aliases.extend(b.matches.iter().map(|m| m.0.clone()));
        }
    });
    sources.extend(&aliases);
    sources
        .into_iter()
        .map(|n| f.buffer(n))
        .any(|b| b.shape.iter().chain(&b.strides).chain(&b.elem_offset).any(|e| e.uses_var(extent)))
}

/// A root block written out that says nothing more than the comment TVM prints in its place.
fn is_plain(b: &Block) -> bool {
    b.iters.is_empty() && b.guard.is_none() && b.attrs.is_empty() && b.matches.is_empty() && b.init.is_empty()
}

/// The attribute `global_symbol` is the name of a function that is not private. One that could not stand
/// after `def` stays an attribute.
pub(super) fn take_symbol(f: &mut PrimFunc) {
    let Some(k) = f.attrs.iter().position(|a| a.0 == "global_symbol") else { return };
    match &f.attrs[k].1 {
        AttrValue::Str(name) if !is_identifier(name) => return,
        AttrValue::Str(name) => {
            f.name = name.clone();
            f.private = false;
        }
        _ => {}
    }
    f.attrs.remove(k);
}

/// Words of Python that cannot be names.
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

fn is_identifier(name: &str) -> bool {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && !KEYWORDS.contains(&name)
}
