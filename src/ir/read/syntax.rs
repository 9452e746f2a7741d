//! Python text to the trees of `ast`, through tree-sitter.

use super::ast::{Def, Node, NodeKind, PyParam, PyStmt, PyStmtKind};
use super::error::{Problem, Span, problem};
use super::guard::MAX_NESTING;
use super::tree::tree_of;
use crate::ir::{BinOp, ops};
use tree_sitter::Node as Cst;

/// Parses a whole file. `heads` come from `guard`.
pub(super) fn parse(text: &str, heads: &[usize]) -> Result<Vec<PyStmt>, Problem> {
    let tree = tree_of(text, heads)?;
    Convert { text }.module(tree.root_node())
}

/// Parses one expression that stands in a string at `at` (a quoted extent).
pub(super) fn parse_expr(text: &str, at: Span) -> Result<Node, Problem> {
    let moved = |_| Problem { at, message: format!("\"{text}\" is not an expression") };
    let tree = tree_of(text, &[]).map_err(moved)?;
    let mut stmts = Convert { text }.block(tree.root_node()).map_err(moved)?;
    match (stmts.pop(), stmts.is_empty()) {
        (Some(PyStmt { kind: PyStmtKind::Expr(node), .. }), true) => Ok(relocated(node, at)),
        _ => problem(at, format!("\"{text}\" is not an expression")),
    }
}

/// The same tree with every place replaced by `at`.
fn relocated(mut node: Node, at: Span) -> Node {
    node.at = at;
    node.kind = match node.kind {
        NodeKind::Binary(op, a, b) => NodeKind::Binary(op, Box::new(relocated(*a, at)), Box::new(relocated(*b, at))),
        other => other,
    };
    node
}

pub(super) fn span(n: Cst) -> Span {
    Span { start: n.start_byte(), end: n.end_byte() }
}

/// Named children without comments.
pub(super) fn children(n: Cst<'_>) -> Vec<Cst<'_>> {
    let mut cursor = n.walk();
    n.named_children(&mut cursor).filter(|c| !c.is_extra()).collect()
}

/// Trees of a text.
pub(super) struct Convert<'a> {
    pub text: &'a str,
}

impl Convert<'_> {
    pub fn source(&self, n: Cst) -> String {
        self.text[n.start_byte()..n.end_byte()].to_string()
    }

    /// A child that the grammar promises.
    pub fn field<'t>(&self, n: Cst<'t>, name: &str) -> Result<Cst<'t>, Problem> {
        match n.child_by_field_name(name) {
            Some(c) => Ok(c),
            None => problem(span(n), format!("this `{}` has no {name}", n.kind())),
        }
    }

    fn block(&self, n: Cst) -> Result<Vec<PyStmt>, Problem> {
        let mut out = vec![];
        for c in children(n) {
            out.push(self.stmt(c)?);
        }
        Ok(out)
    }

    /// What stands outside of functions. Of a Python program around them only names with values matter.
    fn module(&self, n: Cst) -> Result<Vec<PyStmt>, Problem> {
        let mut out = vec![];
        for c in children(n) {
            let is_name = || children(c).first().is_some_and(|s| s.kind() == "assignment");
            out.push(match c.kind() {
                "decorated_definition" => self.stmt(c)?,
                "class_definition" => {
                    PyStmt { at: span(c), kind: PyStmtKind::Class { body: self.module(self.field(c, "body")?)? } }
                }
                "expression_statement" if is_name() => {
                    self.stmt(c).unwrap_or(PyStmt { at: span(c), kind: PyStmtKind::Nothing })
                }
                "function_definition" => {
                    PyStmt { at: span(c), kind: PyStmtKind::Plain(self.source(self.field(c, "name")?)) }
                }
                _ => PyStmt { at: span(c), kind: PyStmtKind::Nothing },
            });
        }
        Ok(out)
    }

    fn body(&self, n: Cst) -> Result<Vec<PyStmt>, Problem> {
        self.block(self.field(n, "body")?)
    }

    fn stmt(&self, n: Cst) -> Result<PyStmt, Problem> {
        let kind = match n.kind() {
            "decorated_definition" => self.decorated(n)?,
            "function_definition" => PyStmtKind::Def(self.def(n, vec![])?),
            "for_statement" => PyStmtKind::For {
                target: self.expr(self.field(n, "left")?)?,
                iter: self.expr(self.field(n, "right")?)?,
                body: self.body(n)?,
            },
            "while_statement" => {
                PyStmtKind::While { cond: self.expr(self.field(n, "condition")?)?, body: self.body(n)? }
            }
            "if_statement" => self.conditional(n)?,
            "with_statement" => self.with(n)?,
            "expression_statement" => self.simple(n)?,
            "pass_statement" | "import_statement" | "import_from_statement" | "future_import_statement" => {
                PyStmtKind::Nothing
            }
            other => {
                let what = other.trim_end_matches("_statement").replace('_', " ");
                return problem(span(n), format!("a `{what}` statement has no meaning in TVMScript"));
            }
        };
        Ok(PyStmt { at: span(n), kind })
    }

    fn decorated(&self, n: Cst) -> Result<PyStmtKind, Problem> {
        let mut decorators = vec![];
        for d in children(n).into_iter().filter(|c| c.kind() == "decorator") {
            for inner in children(d) {
                decorators.push(self.expr(inner)?);
            }
        }
        let inner = self.field(n, "definition")?;
        let tensor = |d: &Node| self.text.get(d.at.start..d.at.end).is_some_and(|t| t.contains("prim_func"));
        match inner.kind() {
            // Functions of other languages in a module (`@R.function`) are none of our business.
            "function_definition" if !decorators.iter().any(tensor) => Ok(PyStmtKind::Nothing),
            "class_definition" => Ok(PyStmtKind::Class { body: self.module(self.field(inner, "body")?)? }),
            _ => Ok(PyStmtKind::Def(self.def(inner, decorators)?)),
        }
    }

    fn def(&self, n: Cst, decorators: Vec<Node>) -> Result<Def, Problem> {
        let mut params = vec![];
        for c in children(self.field(n, "parameters")?) {
            params.push(self.param(c)?);
        }
        Ok(Def { name: self.source(self.field(n, "name")?), decorators, params, body: self.body(n)? })
    }

    fn param(&self, n: Cst) -> Result<PyParam, Problem> {
        match n.kind() {
            "identifier" => Ok(PyParam { at: span(n), name: self.source(n), annotation: None }),
            "typed_parameter" if n.named_child(0).is_some_and(|c| c.kind() == "identifier") => {
                let name = n.named_child(0).map(|c| self.source(c)).unwrap_or_default();
                let annotation = Some(self.expr(self.field(n, "type")?)?);
                Ok(PyParam { at: span(n), name, annotation })
            }
            _ => problem(span(n), "a parameter is written `name: T.Buffer(...)` or `name: T.<dtype>`"),
        }
    }

    fn conditional(&self, n: Cst) -> Result<PyStmtKind, Problem> {
        let mut otherwise = vec![];
        let mut cursor = n.walk();
        let clauses: Vec<_> = n.children_by_field_name("alternative", &mut cursor).collect();
        for clause in clauses.into_iter().rev() {
            otherwise = match clause.kind() {
                "elif_clause" => {
                    let cond = self.expr(self.field(clause, "condition")?)?;
                    let then = self.block(self.field(clause, "consequence")?)?;
                    vec![PyStmt { at: span(clause), kind: PyStmtKind::If { cond, then, otherwise } }]
                }
                _ => self.body(clause)?,
            };
        }
        let cond = self.expr(self.field(n, "condition")?)?;
        Ok(PyStmtKind::If { cond, then: self.block(self.field(n, "consequence")?)?, otherwise })
    }

    fn with(&self, n: Cst) -> Result<PyStmtKind, Problem> {
        let clause = match children(n).into_iter().find(|c| c.kind() == "with_clause") {
            Some(c) => c,
            None => return problem(span(n), "`with` needs an item, such as `T.sblock(\"name\")`"),
        };
        let mut items = children(clause);
        if let [one] = items.as_slice()
            && one.kind() == "with_item"
            && one.named_child(0).is_some_and(|c| c.kind() == "tuple")
        {
            return problem(span(*one), "write one item per `with`");
        }
        let mut body = self.body(n)?;
        while let Some(item) = items.pop() {
            let (item_node, name) = self.with_item(item)?;
            let kind = PyStmtKind::With { item: item_node, name, body };
            if items.is_empty() {
                return Ok(kind);
            }
            body = vec![PyStmt { at: span(item), kind }];
        }
        problem(span(n), "`with` needs an item, such as `T.sblock(\"name\")`")
    }

    fn with_item(&self, n: Cst) -> Result<(Node, Option<Node>), Problem> {
        let value = n.named_child(0).unwrap_or(n);
        if value.kind() != "as_pattern" {
            return Ok((self.expr(value)?, None));
        }
        let item = self.expr(value.named_child(0).unwrap_or(value))?;
        let target = value.child_by_field_name("alias").and_then(|a| a.named_child(0));
        Ok((item, target.map(|t| self.expr(t)).transpose()?))
    }

    /// An assignment or a bare expression.
    fn simple(&self, n: Cst) -> Result<PyStmtKind, Problem> {
        let inner = children(n);
        let [c] = inner.as_slice() else {
            return Ok(PyStmtKind::Expr(Node { at: span(n), kind: NodeKind::Tuple(self.exprs(n)?) }));
        };
        match c.kind() {
            "assignment" => self.assignment(*c),
            "augmented_assignment" => {
                let symbol = self.source(self.field(*c, "operator")?);
                let op = ops::by_symbol(symbol.trim_end_matches('='));
                let Some(op) = op else { return problem(span(*c), format!("`{symbol}` has no meaning in TVMScript")) };
                let target = self.expr(self.field(*c, "left")?)?;
                Ok(PyStmtKind::Update { target, op, value: self.expr(self.field(*c, "right")?)? })
            }
            _ => Ok(PyStmtKind::Expr(self.expr(*c)?)),
        }
    }

    fn assignment(&self, n: Cst) -> Result<PyStmtKind, Problem> {
        let target = self.expr(self.field(n, "left")?)?;
        let value = n.child_by_field_name("right").map(|v| self.expr(v)).transpose()?;
        if let Some(annotation) = n.child_by_field_name("type") {
            return Ok(PyStmtKind::Annotated { target, annotation: self.expr(annotation)?, value });
        }
        match value {
            Some(value) => Ok(PyStmtKind::Assign { target, value }),
            None => problem(span(n), "this assignment has no value"),
        }
    }

    fn exprs(&self, n: Cst) -> Result<Vec<Node>, Problem> {
        children(n).into_iter().map(|c| self.expr(c)).collect()
    }

    pub fn expr(&self, n: Cst) -> Result<Node, Problem> {
        Expression { convert: self, depth: 0 }.node(n)
    }
}

/// Converts one expression and watches its depth: long chains of operators are deep trees too.
struct Expression<'a> {
    convert: &'a Convert<'a>,
    depth: usize,
}

impl Expression<'_> {
    fn node(&mut self, n: Cst) -> Result<Node, Problem> {
        self.depth += 1;
        if self.depth > 2 * MAX_NESTING {
            return problem(span(n), format!("the expression is more than {} levels deep", 2 * MAX_NESTING));
        }
        let kind = self.kind(n)?;
        self.depth -= 1;
        Ok(Node { at: span(n), kind })
    }

    fn boxed(&mut self, n: Cst, field: &str) -> Result<Box<Node>, Problem> {
        let child = self.convert.field(n, field)?;
        Ok(Box::new(self.node(child)?))
    }

    fn list(&mut self, n: Cst) -> Result<Vec<Node>, Problem> {
        children(n).into_iter().map(|c| self.node(c)).collect()
    }

    /// The node inside a bracket or a wrapper of the grammar.
    fn inner(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        match children(n).as_slice() {
            [one] => Ok(self.node(*one)?.kind),
            _ => problem(span(n), "one expression was expected here"),
        }
    }

    fn kind(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let source = || self.convert.source(n);
        Ok(match n.kind() {
            "identifier" => NodeKind::Name(source()),
            "integer" => NodeKind::Int(super::number::integer(&source())),
            "float" => match super::number::float(&source()) {
                Some(v) => NodeKind::Float(v),
                None => return problem(span(n), format!("`{}` is not a number", source())),
            },
            "string" => NodeKind::Str(self.string(n)?),
            "concatenated_string" => {
                let parts = children(n).into_iter().map(|c| self.string(c)).collect::<Result<Vec<_>, _>>()?;
                NodeKind::Str(parts.concat())
            }
            "true" => NodeKind::Bool(true),
            "false" => NodeKind::Bool(false),
            "none" => NodeKind::None,
            "parenthesized_expression" | "type" => self.inner(n)?,
            "attribute" => {
                let name = self.convert.source(self.convert.field(n, "attribute")?);
                NodeKind::Attr(self.boxed(n, "object")?, name)
            }
            "call" => self.call(n)?,
            "subscript" | "generic_type" => self.index(n)?,
            "slice" => self.slice(n)?,
            "tuple" | "expression_list" | "pattern_list" | "tuple_pattern" | "type_parameter" => {
                NodeKind::Tuple(self.list(n)?)
            }
            "list" | "list_pattern" => NodeKind::List(self.list(n)?),
            "dictionary" => self.dict(n)?,
            "unary_operator" => self.unary(n)?,
            "not_operator" => NodeKind::Not(self.boxed(n, "argument")?),
            "binary_operator" | "boolean_operator" => {
                let op = self.operator(self.convert.field(n, "operator")?)?;
                NodeKind::Binary(op, self.boxed(n, "left")?, self.boxed(n, "right")?)
            }
            "comparison_operator" => self.comparison(n)?,
            "conditional_expression" => self.ternary(n)?,
            "lambda" => NodeKind::Lambda(source().trim_start_matches("lambda").trim().to_string()),
            other => {
                let what = other.replace('_', " ");
                return problem(span(n), format!("a Python {what} has no meaning in TVMScript"));
            }
        })
    }

    fn operator(&self, n: Cst) -> Result<BinOp, Problem> {
        let symbol = self.convert.source(n);
        match ops::by_symbol(&symbol) {
            Some(op) => Ok(op),
            None => problem(span(n), format!("the operator `{symbol}` has no meaning in TVMScript")),
        }
    }

    fn string(&self, n: Cst) -> Result<String, Problem> {
        super::number::string(&self.convert.source(n)).map_or_else(|m| problem(span(n), m), Ok)
    }

    fn call(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let func = self.boxed(n, "function")?;
        if is_layout(&func) {
            return Ok(NodeKind::Layout(self.convert.source(n)));
        }
        let list = self.convert.field(n, "arguments")?;
        let (mut args, mut keywords) = (vec![], vec![]);
        for c in children(list) {
            if c.kind() == "keyword_argument" {
                let name = self.convert.source(self.convert.field(c, "name")?);
                keywords.push((name, *self.boxed(c, "value")?));
            } else {
                args.push(self.node(c)?);
            }
        }
        Ok(NodeKind::Call { func, args, keywords })
    }

    fn index(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let all = children(n);
        let [base, items @ ..] = all.as_slice() else { return problem(span(n), "this index is empty") };
        let base = Box::new(self.node(*base)?);
        let mut out = vec![];
        for item in items {
            match self.node(*item)? {
                // `A[()]` has one item, an empty tuple; `A[(i, j)]` is `A[i, j]`.
                Node { kind: NodeKind::Tuple(inner), .. } if items.len() == 1 => out.extend(inner),
                other => out.push(other),
            }
        }
        Ok(NodeKind::Index(base, out))
    }

    fn slice(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let mut parts: [Option<Box<Node>>; 3] = [None, None, None];
        let mut at = 0;
        let mut cursor = n.walk();
        for c in n.children(&mut cursor) {
            if c.kind() == ":" {
                at += 1;
            } else if c.is_named() && !c.is_extra() && at < 3 {
                parts[at] = Some(Box::new(self.node(c)?));
            }
        }
        let [start, stop, step] = parts;
        match step {
            Some(s) if !matches!(s.kind, NodeKind::Int(Some(1))) => problem(s.at, "a region has no step"),
            _ => Ok(NodeKind::Slice(start, stop)),
        }
    }

    fn dict(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let mut out = vec![];
        for c in children(n) {
            if c.kind() != "pair" {
                return problem(span(c), "a dictionary holds `key: value` pairs");
            }
            out.push((*self.boxed(c, "key")?, *self.boxed(c, "value")?));
        }
        Ok(NodeKind::Dict(out))
    }

    fn unary(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let arg = self.boxed(n, "argument")?;
        Ok(match self.convert.source(self.convert.field(n, "operator")?).as_str() {
            "-" => NodeKind::Neg(arg),
            "~" => NodeKind::BitNot(arg),
            _ => arg.kind,
        })
    }

    /// `a < b < c` means `a < b and b < c`.
    fn comparison(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let operands = children(n);
        let mut cursor = n.walk();
        let operators: Vec<_> = n.children_by_field_name("operators", &mut cursor).collect();
        if operands.len() < 2 || operators.len() + 1 != operands.len() || operands.len() > MAX_NESTING {
            return problem(span(n), "this comparison is not one that TVMScript has");
        }
        let mut whole: Option<Node> = None;
        for (pair, op) in operands.windows(2).zip(operators) {
            let op = self.operator(op)?;
            let (a, b) = (Box::new(self.node(pair[0])?), Box::new(self.node(pair[1])?));
            let one = Node { at: span(n), kind: NodeKind::Binary(op, a, b) };
            whole = Some(match whole {
                None => one,
                Some(w) => Node { at: span(n), kind: NodeKind::Binary(BinOp::And, Box::new(w), Box::new(one)) },
            });
        }
        whole.map_or_else(|| problem(span(n), "this comparison is empty"), |w| Ok(w.kind))
    }

    fn ternary(&mut self, n: Cst) -> Result<NodeKind, Problem> {
        let all = children(n);
        let [then, cond, otherwise] = all.as_slice() else {
            return problem(span(n), "`a if c else b` needs three parts");
        };
        Ok(NodeKind::Ternary {
            then: Box::new(self.node(*then)?),
            cond: Box::new(self.node(*cond)?),
            otherwise: Box::new(self.node(*otherwise)?),
        })
    }
}

/// True for the names that make layouts, qualified or not.
fn is_layout(func: &Node) -> bool {
    let name = func.dotted().unwrap_or_default();
    matches!(name.rsplit('.').next(), Some("TileLayout" | "ComposeLayout" | "SwizzleLayout"))
}
