//! Modules: what stands outside of functions.

use super::ast::{Def, Node, NodeKind, PyStmt, PyStmtKind};
use super::buffer::{dtype_named, str_of};
use super::error::{Problem, Span, problem};
use super::scope::{Binding, Scope};
use super::{guard, syntax, tile};
use crate::ir::{DType, Function, canonicalize};

/// Reads every function of a text.
pub(super) fn read_module(text: &str) -> Result<Vec<Function>, Problem> {
    let heads = guard::check(text)?;
    let stmts = syntax::parse(text, &heads)?;
    let old = !text.contains("T.sblock") && !text.contains("s_tir=True");
    let mut module = Module { text, old, globals: vec![], functions: vec![], plain: None };
    module.statements(&stmts, false)?;
    if module.functions.is_empty() { module.without_functions() } else { Ok(module.functions) }
}

struct Module<'a> {
    text: &'a str,
    old: bool,
    /// What the text gives names to outside of functions.
    globals: Vec<(String, Binding)>,
    functions: Vec<Function>,
    /// The first function that is none of TVMScript.
    plain: Option<(String, Span)>,
}

impl Module<'_> {
    fn statements(&mut self, stmts: &[PyStmt], in_class: bool) -> Result<(), Problem> {
        for s in stmts {
            match &s.kind {
                PyStmtKind::Def(def) => self.function(def, s.at)?,
                PyStmtKind::Class { body, .. } if !in_class => self.statements(body, true)?,
                PyStmtKind::Assign { target, value } => self.global(target, value)?,
                PyStmtKind::Plain(name) => {
                    self.plain.get_or_insert_with(|| (name.clone(), s.at));
                }
                // A Python program around functions, which is not executed.
                _ => {}
            }
        }
        Ok(())
    }

    /// Why there is nothing to read.
    fn without_functions(self) -> Result<Vec<Function>, Problem> {
        if let Some(start) = self.text.find("@R.function") {
            let at = Span { start, end: start + 1 };
            return problem(
                at,
                "all functions here are of relax; `relax.transform.LegalizeOps()(mod)` makes tensor functions of them, and \
                 `mod.script()` prints these",
            );
        }
        match self.plain {
            Some((name, at)) => problem(
                at,
                format!(
                    "`{name}` is a function of Python; one of TVMScript stands under @T.prim_func, as `mod.script()` prints those \
                     of a TVM module"
                ),
            ),
            None => problem(
                Span::default(),
                "the text holds no function; one starts with @T.prim_func, as `mod.script()` of a TVM module prints it",
            ),
        }
    }

    /// `n = TypeVar("n")`, or a constant that functions use; other names are the Python program's.
    fn global(&mut self, target: &Node, value: &Node) -> Result<(), Problem> {
        if let (NodeKind::Tuple(targets), NodeKind::Tuple(values)) = (&target.kind, &value.kind)
            && targets.len() == values.len()
        {
            return targets.iter().zip(values).try_for_each(|(t, v)| self.global(t, v));
        }
        let NodeKind::Name(user) = &target.kind else {
            return Ok(());
        };
        if let NodeKind::Call { func, args, .. } = &value.kind {
            match func.dotted() {
                Some(name) if name == "TypeVar" && !args.is_empty() => {
                    let dtype = args.get(1).map_or(Ok(DType::I64), |n| dtype_named(str_of(n, "a dtype")?, n.at))?;
                    self.globals.push((user.clone(), Binding::Declared(dtype)));
                    return Ok(());
                }
                // What a text says of targets is for TVM; Daylight is told on the command line.
                Some(name) if name.starts_with("tvm.") || name.ends_with("Target") => return Ok(()),
                _ => {}
            }
        }
        if let Ok(Some(binding)) = self.scope().named_constant(value) {
            self.globals.push((user.clone(), binding));
        }
        Ok(())
    }

    fn scope(&self) -> Scope<'_> {
        let mut scope = Scope::new(self.text, self.old);
        self.globals.iter().for_each(|(user, binding)| scope.bind(user, binding.clone()));
        scope
    }

    fn function(&mut self, def: &Def, at: Span) -> Result<(), Problem> {
        let Some(private) = decoration(&def.decorators)? else {
            return problem(at, format!("function `{}` has no @T.prim_func decorator", def.name));
        };
        let mut scope = self.scope();
        scope.tile = tile::is_program(def);
        let reader = super::func::Function { scope, params: vec![], attrs: vec![] };
        let read = if reader.scope.tile {
            Function::Tile(reader.read_tile(def, private)?)
        } else {
            Function::Tensor(canonicalize(reader.read(def, private)?))
        };
        self.functions.push(read);
        Ok(())
    }
}

/// `Some(private)` for a tensor function.
fn decoration(decorators: &[Node]) -> Result<Option<bool>, Problem> {
    for d in decorators {
        let (func, keywords) = match &d.kind {
            NodeKind::Call { func, keywords, .. } => (func.as_ref(), keywords.as_slice()),
            _ => (d, [].as_slice()),
        };
        if func.dotted().is_none_or(|n| !n.ends_with("prim_func")) {
            continue;
        }
        let mut private = false;
        for (key, value) in keywords {
            let NodeKind::Bool(on) = value.kind else { return problem(value.at, format!("`{key}` is True or False")) };
            if key == "private" {
                private = on;
            }
        }
        return Ok(Some(private));
    }
    Ok(None)
}
