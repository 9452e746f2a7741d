//! The part of Python's syntax that TVMScript uses, as plain trees.

use super::error::Span;
use crate::ir::BinOp;

/// An expression and where it stands.
#[derive(Debug)]
pub(super) struct Node {
    pub at: Span,
    pub kind: NodeKind,
}

/// Kinds of expressions.
#[derive(Debug)]
pub(super) enum NodeKind {
    Name(String),
    /// An integer literal; `None` where it is too large for 128 bits.
    Int(Option<i128>),
    Float(f64),
    Str(String),
    Bool(bool),
    None,
    /// `base.name`
    Attr(Box<Node>, String),
    Call {
        func: Box<Node>,
        args: Vec<Node>,
        keywords: Vec<(String, Node)>,
    },
    /// `base[items]`
    Index(Box<Node>, Vec<Node>),
    /// `a:b` inside an index.
    Slice(Option<Box<Node>>, Option<Box<Node>>),
    Tuple(Vec<Node>),
    List(Vec<Node>),
    Dict(Vec<(Node, Node)>),
    Neg(Box<Node>),
    Not(Box<Node>),
    BitNot(Box<Node>),
    Binary(BinOp, Box<Node>, Box<Node>),
    /// `then if cond else otherwise`
    Ternary {
        cond: Box<Node>,
        then: Box<Node>,
        otherwise: Box<Node>,
    },
    /// The text after the word `lambda`.
    Lambda(String),
    /// A layout: the text of `TileLayout(...)` or the like, which has a notation of its own.
    Layout(String),
}

/// A statement and where it stands.
#[derive(Debug)]
pub(super) struct PyStmt {
    pub at: Span,
    pub kind: PyStmtKind,
}

/// Kinds of statements.
#[derive(Debug)]
pub(super) enum PyStmtKind {
    Def(Def),
    Class {
        body: Vec<PyStmt>,
    },
    For {
        target: Node,
        iter: Node,
        body: Vec<PyStmt>,
    },
    While {
        cond: Node,
        body: Vec<PyStmt>,
    },
    If {
        cond: Node,
        then: Vec<PyStmt>,
        otherwise: Vec<PyStmt>,
    },
    /// `with item as name:`; several items are nested statements.
    With {
        item: Node,
        name: Option<Node>,
        body: Vec<PyStmt>,
    },
    Assign {
        target: Node,
        value: Node,
    },
    /// `target: annotation = value`
    Annotated {
        target: Node,
        annotation: Node,
        value: Option<Node>,
    },
    /// `target op= value`
    Update {
        target: Node,
        op: BinOp,
        value: Node,
    },
    Expr(Node),
    /// `pass`, `import`, and what a Python program has around functions: nothing to do.
    Nothing,
    /// A function of Python, with its name.
    Plain(String),
}

/// A function definition.
#[derive(Debug)]
pub(super) struct Def {
    pub name: String,
    pub decorators: Vec<Node>,
    pub params: Vec<PyParam>,
    pub body: Vec<PyStmt>,
}

/// A parameter.
#[derive(Debug)]
pub(super) struct PyParam {
    pub at: Span,
    pub name: String,
    pub annotation: Option<Node>,
}

/// Name, arguments and keywords of a call.
pub(super) type TirCall<'n> = (String, &'n [Node], &'n [(String, Node)]);

impl Node {
    /// `a.b.c` as text, for names and dotted names.
    pub fn dotted(&self) -> Option<String> {
        match &self.kind {
            NodeKind::Name(n) => Some(n.clone()),
            NodeKind::Attr(base, name) => Some(format!("{}.{name}", base.dotted()?)),
            _ => None,
        }
    }

    /// The name after `T.` (`axis.remap`, `int64`).
    pub fn tir_name(&self) -> Option<String> {
        self.dotted()?.strip_prefix("T.").map(str::to_string)
    }

    /// A call of `T.<name>`: the name, arguments and keywords.
    pub fn tir_call(&self) -> Option<TirCall<'_>> {
        match &self.kind {
            NodeKind::Call { func, args, keywords } => Some((func.tir_name()?, args, keywords)),
            _ => None,
        }
    }
}
