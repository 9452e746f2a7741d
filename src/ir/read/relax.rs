//! Relax functions: which functions they call. What else they do is passed over.

use super::ast::{Node, NodeKind};
use super::error::{Problem, Span, problem};
use super::syntax::{Convert, children, span};
use super::{guard, tree};
use crate::ir::relax::{Callee, RelaxCall, RelaxFunc, RelaxType};
use crate::ir::{BinOp, DType, Expr};
use std::collections::HashMap;
use tree_sitter::Node as Cst;

/// Reads every relax function of a text.
pub(super) fn read_relax(text: &str) -> Result<Vec<RelaxFunc>, Problem> {
    let heads = guard::check(text)?;
    let tree = tree::tree_of(text, &heads)?;
    let mut out = vec![];
    functions(&Convert { text }, tree.root_node(), &mut out)?;
    Ok(out)
}

/// Those of a module and of the classes in it.
fn functions(convert: &Convert<'_>, n: Cst<'_>, out: &mut Vec<RelaxFunc>) -> Result<(), Problem> {
    for c in children(n) {
        let decorated = c.kind() == "decorated_definition";
        let inner = if decorated { convert.field(c, "definition")? } else { c };
        match inner.kind() {
            "class_definition" => functions(convert, convert.field(inner, "body")?, out)?,
            "function_definition" if decorated => out.extend(function(convert, c, inner)?),
            _ => {}
        }
    }
    Ok(())
}

/// The function, where its decorator is `@R.function`.
fn function(convert: &Convert<'_>, whole: Cst<'_>, n: Cst<'_>) -> Result<Option<RelaxFunc>, Problem> {
    let decorators = children(whole).into_iter().filter(|c| c.kind() == "decorator");
    let Some(decorator) = decorators.map(|d| convert.source(d)).find(|d| d.starts_with("@R.function")) else {
        return Ok(None);
    };
    let mut reader = Reader { convert, known: HashMap::new(), calls: vec![] };
    let mut params = vec![];
    for p in children(convert.field(n, "parameters")?) {
        let name = p.named_child(0).map(|c| convert.source(c)).unwrap_or_default();
        let annotation = p.child_by_field_name("type").and_then(|t| convert.expr(t).ok());
        let ty = annotation.as_ref().map_or(RelaxType::Unknown, type_of);
        reader.known.insert(name, ty.clone());
        params.push(ty);
    }
    reader.statements(convert.field(n, "body")?)?;
    let name = convert.source(convert.field(n, "name")?);
    let private = decorator.replace(' ', "").contains("private=True");
    Ok(Some(RelaxFunc { name, private, params, calls: reader.calls }))
}

struct Reader<'a> {
    convert: &'a Convert<'a>,
    /// What names hold.
    known: HashMap<String, RelaxType>,
    calls: Vec<RelaxCall>,
}

impl Reader<'_> {
    fn statements(&mut self, n: Cst<'_>) -> Result<(), Problem> {
        for c in children(n) {
            match c.kind() {
                "expression_statement" => self.simple(c)?,
                // What is bound in them is found in their bodies.
                "with_statement" | "if_statement" | "elif_clause" | "else_clause" | "block" => self.statements(c)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn simple(&mut self, n: Cst<'_>) -> Result<(), Problem> {
        for c in children(n) {
            if c.kind() != "assignment" {
                self.value(c)?;
                continue;
            }
            let bound = c.child_by_field_name("right").map(|v| self.value(v)).transpose()?;
            let annotation = c.child_by_field_name("type").and_then(|t| self.convert.expr(t).ok());
            let said = annotation.as_ref().map(type_of).filter(|t| *t != RelaxType::Unknown);
            let name = self.convert.source(self.convert.field(c, "left")?);
            self.known.insert(name, said.or(bound).unwrap_or(RelaxType::Unknown));
        }
        Ok(())
    }

    /// What a value is; the call that it is, is noted.
    fn value(&mut self, n: Cst<'_>) -> Result<RelaxType, Problem> {
        match self.convert.expr(n) {
            Ok(node) => self.bound(&node),
            Err(_) if self.convert.source(n).contains("call_tir") => problem(
                span(n),
                "this call of a tensor function is not understood; expected R.call_tir(cls.f, (x, y), out_ty=...)",
            ),
            Err(_) => Ok(RelaxType::Unknown),
        }
    }

    fn bound(&mut self, node: &Node) -> Result<RelaxType, Problem> {
        let NodeKind::Call { func, args, keywords } = &node.kind else { return Ok(self.held(node)) };
        let Some(name) = func.dotted() else { return Ok(RelaxType::Unknown) };
        if let "R.call_tir" | "R.call_tir_inplace" | "R.call_tir_with_grad" = name.as_str() {
            return self.call_tir(node.at, args, keywords);
        }
        let callee = match name.split_once('.') {
            Some(("R", op)) => match (op, args.first().map(|a| &a.kind)) {
                (op, Some(NodeKind::Str(packed))) if op.starts_with("call_") => Callee::Other(packed.clone()),
                _ if is_free(op) => return Ok(self.held(node)),
                _ => Callee::Other(name),
            },
            // `cls.layer`, or with the name of the module.
            Some((module, function)) if !matches!(module, "T" | "I") => Callee::Relax(function.to_string()),
            _ => return Ok(RelaxType::Unknown),
        };
        let passed = args.iter().map(|a| self.held(a)).collect();
        self.note(callee, passed, vec![], node.at);
        Ok(keyword(keywords, &OUT).map_or(RelaxType::Unknown, type_of))
    }

    /// `R.call_tir(cls.f, (x, y), out_ty=..., tir_vars=...)`
    fn call_tir(&mut self, at: Span, args: &[Node], keywords: &[(String, Node)]) -> Result<RelaxType, Problem> {
        let name = args.first().and_then(Node::dotted);
        let callee = name.as_deref().and_then(|n| n.split_once('.')).map(|(_, function)| function.to_string());
        let (Some(function), Some(given)) = (callee, args.get(1)) else {
            return problem(at, "a call of a tensor function is written R.call_tir(cls.f, (x, y), out_ty=...)");
        };
        let out = args.get(2).or(keyword(keywords, &OUT)).map_or(RelaxType::Unknown, type_of);
        let mut passed = match &given.kind {
            NodeKind::Tuple(all) | NodeKind::List(all) => all.iter().map(|a| self.held(a)).collect(),
            _ => vec![self.held(given)],
        };
        passed.extend(self.outputs(&out, keywords));
        let vars = args.get(3).or(keyword(keywords, &["tir_vars"]));
        let scalars = vars.map(shape_of).unwrap_or_default();
        self.note(Callee::Tensor(function), passed, scalars, at);
        Ok(out)
    }

    /// The outputs that a tensor function has a parameter for: of a call in place those that are no argument.
    fn outputs(&self, out: &RelaxType, keywords: &[(String, Node)]) -> Vec<RelaxType> {
        let all = match out {
            RelaxType::Tuple(all) => all.clone(),
            one => vec![one.clone()],
        };
        let places = keyword(keywords, &["inplace_indices"]).map(|n| match &n.kind {
            NodeKind::List(all) | NodeKind::Tuple(all) => all.iter().collect(),
            _ => vec![n],
        });
        let fresh = |k: usize| match &places {
            Some(places) => places.get(k).is_none_or(|p| matches!(p.kind, NodeKind::Neg(_))),
            None => true,
        };
        all.into_iter().enumerate().filter(|(k, _)| fresh(*k)).map(|(_, t)| t).collect()
    }

    /// What a name, an item of a tuple or a tuple holds.
    fn held(&self, node: &Node) -> RelaxType {
        match &node.kind {
            NodeKind::Name(name) => self.known.get(name).cloned().unwrap_or(RelaxType::Unknown),
            NodeKind::Tuple(all) | NodeKind::List(all) => RelaxType::Tuple(all.iter().map(|n| self.held(n)).collect()),
            NodeKind::Index(base, items) => match (self.held(base), items.as_slice()) {
                (RelaxType::Tuple(all), [Node { kind: NodeKind::Int(Some(k)), .. }]) => {
                    usize::try_from(*k).ok().and_then(|k| all.get(k).cloned()).unwrap_or(RelaxType::Unknown)
                }
                _ => RelaxType::Unknown,
            },
            NodeKind::Call { func, args, .. } if func.dotted().as_deref() == Some("R.tuple") => {
                RelaxType::Tuple(args.iter().map(|n| self.held(n)).collect())
            }
            _ => RelaxType::Unknown,
        }
    }

    fn note(&mut self, callee: Callee, args: Vec<RelaxType>, scalars: Vec<Expr>, at: Span) {
        let (line, column) = at.place(self.convert.text);
        self.calls.push(RelaxCall { callee, args, scalars, line, column });
    }
}

/// Keywords by which calls say what comes out, in TVM 0.27 and before.
const OUT: [&str; 2] = ["out_ty", "out_sinfo"];

fn keyword<'n>(keywords: &'n [(String, Node)], names: &[&str]) -> Option<&'n Node> {
    keywords.iter().find(|(key, _)| names.contains(&key.as_str())).map(|(_, value)| value)
}

/// What is no work when a step runs.
fn is_free(op: &str) -> bool {
    matches!(
        op,
        "output"
            | "func_attr"
            | "tuple"
            | "shape"
            | "const"
            | "prim_value"
            | "match_cast"
            | "dtype"
            | "str"
            | "null_value"
            | "assert_op"
    )
}

/// What an annotation says: `R.Tensor((n, 4096), dtype="float16")`, `R.Tuple(...)`, a list of them.
fn type_of(node: &Node) -> RelaxType {
    match &node.kind {
        NodeKind::Tuple(all) | NodeKind::List(all) => RelaxType::Tuple(all.iter().map(type_of).collect()),
        NodeKind::Call { func, args, keywords } => match func.dotted().as_deref() {
            Some("R.Tuple") => RelaxType::Tuple(args.iter().map(type_of).collect()),
            Some("R.Tensor") => args
                .first()
                .or(keyword(keywords, &["shape"]))
                .filter(|shape| matches!(shape.kind, NodeKind::Tuple(_) | NodeKind::List(_)))
                .map_or(RelaxType::Unknown, |shape| RelaxType::Tensor(shape_of(shape))),
            _ => RelaxType::Unknown,
        },
        _ => RelaxType::Unknown,
    }
}

/// Sizes in a tuple, a list or `R.shape([...])`.
fn shape_of(node: &Node) -> Vec<Expr> {
    match &node.kind {
        NodeKind::Tuple(all) | NodeKind::List(all) => all.iter().map(size).collect(),
        NodeKind::Call { args, .. } => args.first().map(shape_of).unwrap_or_default(),
        _ => vec![],
    }
}

/// A size over symbols. What is not understood has no value.
fn size(node: &Node) -> Expr {
    match &node.kind {
        NodeKind::Int(Some(n)) => i64::try_from(*n).map_or_else(|_| unknown(), Expr::i64),
        NodeKind::Name(name) | NodeKind::Str(name) => Expr::var(name.as_str(), DType::I64),
        NodeKind::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::FloorDiv | BinOp::FloorMod), a, b) => {
            Expr::binary(*op, size(a), size(b))
        }
        // `T.int64(4096)`
        NodeKind::Call { args, .. } => match args.as_slice() {
            [one] => size(one),
            _ => unknown(),
        },
        _ => unknown(),
    }
}

/// A size that nothing gives a value: no name is empty.
fn unknown() -> Expr {
    Expr::var("", DType::I64)
}
