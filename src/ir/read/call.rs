//! Calls: `T.Cast(...)`, `T.exp(...)`, `T.if_then_else(...)`, extern calls.

use super::ast::{Node, NodeKind};
use super::buffer::{dtype_named, dtype_of, str_of};
use super::error::{Problem, Span, problem};
use super::number;
use super::scope::{Binding, Scope};
use super::spelled_out;
use super::value::{self, Value, convert, match_types};
use crate::ir::nearest;
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, ops};

type Keywords = [(String, Node)];

/// Beginnings of the names of opaque calls. They are read and printed; a function that holds one is
/// refused later.
const OPAQUE: [&str; 30] = [
    "call_",
    "tvm_",
    "ptx",
    "cuda.",
    "metal.",
    "nvshmem.",
    "webgpu.",
    "nki.",
    "mma_",
    "address_of",
    "access_ptr",
    "comm_reducer",
    "type_annotation",
    "create_barriers",
    "lookup_param",
    "assume",
    "undef",
    "dp4a",
    "vector",
    "q_multiply_shift_per_axis",
    "TVMBackend",
    "start_profile",
    "end_profile",
    "anylist_",
    "get_active_lane_mask",
    "ptr_",
    "handle_add",
    "thread_return",
    "isnullptr",
    "masked_",
];

/// Calls that have a meaning of their own, for the hint after an unknown name.
const OWN: [&str; 14] = [
    "Cast",
    "cast",
    "reinterpret",
    "Select",
    "if_then_else",
    "Let",
    "min_value",
    "max_value",
    "infinity",
    "ceildiv",
    "abs",
    "likely",
    "ldexp",
    "q_multiply_shift",
];

impl Scope<'_> {
    pub(super) fn call(
        &mut self,
        func: &Node,
        args: &[Node],
        keywords: &Keywords,
        node: &Node,
    ) -> Result<Value, Problem> {
        if let Some(name) = func.tir_name() {
            return self.tir_call(&name, args, keywords, node);
        }
        match &func.kind {
            NodeKind::Attr(base, method) if method == "astype" => {
                let [dtype] = arity(args, "astype", node.at)?;
                let dtype = dtype_of(dtype)?;
                self.value(base)?.to(dtype, node.at).map(Value::Expr)
            }
            NodeKind::Attr(base, method) if self.is_buffer(base) && !self.tile => {
                let mut all = vec![self.whole_buffer(base)?];
                self.opaque_args(args, keywords, &mut all)?;
                let callee = format!(".{method}()").into();
                Ok(Value::Expr(Expr::new(ExprKind::Extern { callee, args: all, dtype: DType::Handle })))
            }
            _ => problem(func.at, format!("`{}` is not a function of TVMScript", self.source(func.at))),
        }
    }

    fn is_buffer(&self, node: &Node) -> bool {
        node.dotted().is_some_and(|n| matches!(self.lookup(&n), Some(Binding::Buffer(_))))
    }

    fn tir_call(&mut self, name: &str, args: &[Node], keywords: &Keywords, node: &Node) -> Result<Value, Problem> {
        if name == "Let" {
            return self.let_in(args, keywords, node);
        }
        if OPAQUE.iter().any(|o| name.starts_with(o)) {
            return self.opaque(name, args, keywords, node.at).map(Value::Expr);
        }
        let args = &self.merged(name, args, keywords, node.at)?[..];
        if let Ok(dtype) = if name == "boolean" { Ok(DType::Bool) } else { name.parse::<DType>() } {
            return self.constant(dtype, args, node.at);
        }
        if let Some((op, node_form)) = ops::by_name(name) {
            return self.operator(op, node_form, name, args, node.at);
        }
        if let Some((op, count)) = intrinsic(name) {
            return self.intrinsic(op, count, name, args, node.at);
        }
        self.special(name, args, node)
    }

    /// Keyword arguments of plain calls, in place: `dtype=` of a few, nothing else.
    fn merged<'n>(
        &self,
        name: &str,
        args: &'n [Node],
        keywords: &'n Keywords,
        at: Span,
    ) -> Result<Vec<&'n Node>, Problem> {
        let mut all: Vec<&Node> = args.iter().collect();
        for (key, value) in keywords {
            match key.as_str() {
                "dtype" | "value" | "condition" | "true_value" | "false_value" | "cond" | "a" | "b" | "x" => {
                    all.push(value)
                }
                "span" => {}
                _ => return problem(at, format!("T.{name} has no argument `{key}`")),
            }
        }
        Ok(all)
    }

    /// `T.int64(3)`, `T.float32("inf")`, `T.float16(x)`.
    fn constant(&mut self, dtype: DType, args: &[&Node], at: Span) -> Result<Value, Problem> {
        let [arg] = args else {
            return problem(at, format!("T.{dtype} takes one value here, not {}", args.len()));
        };
        if let NodeKind::Str(text) = &arg.kind {
            return match number::float(text) {
                Some(v) if dtype.is_float() => Ok(Value::Expr(Expr::float(v, dtype))),
                _ => problem(arg.at, format!("\"{text}\" is not a value of {dtype}")),
            };
        }
        if let (NodeKind::Int(Some(v)), DType::U64) = (&arg.kind, dtype)
            && let Ok(bits) = u64::try_from(*v)
        {
            return Ok(Value::Expr(Expr::int(bits as i64, dtype)));
        }
        self.value(arg)?.to(dtype, arg.at).map(Value::Expr)
    }

    fn operator(&mut self, op: BinOp, node_form: bool, name: &str, args: &[&Node], at: Span) -> Result<Value, Problem> {
        let [a, b] = exactly(args, name, at)?;
        let (a, b) = (self.value(a)?, self.value(b)?);
        let int = |v: &Value| match v {
            Value::Int(_) => true,
            Value::Float(_) => false,
            Value::Expr(e) => !e.dtype().is_float(),
        };
        let op = if name == "Div" && int(&a) && int(&b) { BinOp::TruncDiv } else { op };
        // min and max are printed by their lower-case names even of two constants.
        let keep = node_form || matches!(op, BinOp::Min | BinOp::Max);
        if keep && !matches!((&a, &b), (Value::Int(_), Value::Int(_)) if !node_form) {
            return value::binary_node(op, a, b, at);
        }
        value::binary(op, a, b, at)
    }

    fn intrinsic(&mut self, op: Intrin, count: usize, name: &str, args: &[&Node], at: Span) -> Result<Value, Problem> {
        if args.len() != count {
            return problem(at, format!("T.{name} takes {count} arguments, not {}", args.len()));
        }
        let mut values = vec![];
        for a in args {
            values.push(self.value(a)?);
        }
        let args = same_type(values, at)?;
        let dtype = args[0].dtype();
        let ints = matches!(op, Intrin::PopCount | Intrin::Clz);
        let fits = if ints { dtype.is_int() } else { dtype.is_float() || (op == Intrin::Pow && dtype.is_int()) };
        if !fits {
            let wanted = if ints { "an integer" } else { "a float" };
            return problem(at, format!("T.{name} takes {wanted}, not {dtype}"));
        }
        let result = match op {
            Intrin::IsNan | Intrin::IsInf => DType::Bool,
            Intrin::Clz => DType::I32,
            _ => dtype,
        };
        Ok(Value::Expr(Expr::call(op, args, result)))
    }

    fn special(&mut self, name: &str, args: &[&Node], node: &Node) -> Result<Value, Problem> {
        let at = node.at;
        match name {
            "Cast" => {
                let [dtype, arg] = exactly(args, name, at)?;
                let (dtype, arg) = (dtype_of(dtype)?, self.expr(arg)?);
                number_type(dtype, at)?;
                number_type(arg.dtype(), at)?;
                Ok(Value::Expr(Expr::new(ExprKind::Cast { dtype, arg })))
            }
            "cast" => {
                let [arg, dtype] = exactly(args, name, at)?;
                let dtype = dtype_of(dtype)?;
                self.value(arg)?.to(dtype, at).map(Value::Expr)
            }
            "reinterpret" => self.reinterpret(args, at),
            "Select" => self.select(args, at),
            "if_then_else" => {
                let [cond, then, otherwise] = exactly(args, name, at)?;
                self.if_then_else(cond, then, otherwise, node)
            }
            "min_value" | "max_value" | "infinity" => {
                let [dtype] = exactly(args, name, at)?;
                super::limit::limit(name, dtype_of(dtype)?, at)
            }
            "ceildiv" => self.ceildiv(args, at),
            "abs" => self.abs(args, at),
            "ldexp" => {
                let [x, e] = exactly(args, name, at)?;
                spelled_out::ldexp(self.expr(x)?, self.expr(e)?, at).map(Value::Expr)
            }
            "q_multiply_shift" => {
                let [x, y, q, s] = exactly(args, name, at)?;
                let all = [self.expr(x)?, self.expr(y)?, self.expr(q)?, self.expr(s)?];
                spelled_out::q_multiply_shift(all, at).map(Value::Expr)
            }
            "likely" => {
                let [arg] = exactly(args, name, at)?;
                self.value(arg)
            }
            "Not" => {
                let [arg] = exactly(args, name, at)?;
                Ok(Value::Expr(Expr::unary(crate::ir::UnOp::Not, self.condition(arg)?)))
            }
            "bitwise_not" | "BitwiseNot" => {
                let [arg] = exactly(args, name, at)?;
                self.bit_not(arg)
            }
            "Ramp" | "Broadcast" | "ramp" | "broadcast" | "Shuffle" => {
                problem(at, format!("T.{name} makes a vector, which is not supported; write scalar operations"))
            }
            _ => unknown(name, at),
        }
    }

    fn reinterpret(&mut self, args: &[&Node], at: Span) -> Result<Value, Problem> {
        let [first, second] = exactly(args, "reinterpret", at)?;
        let (dtype, arg) = match &first.kind {
            NodeKind::Str(_) => (first, second),
            _ => (second, first),
        };
        let (dtype, arg) = (dtype_of(dtype)?, self.expr(arg)?);
        if dtype.bytes() != arg.dtype().bytes() {
            return problem(at, format!("{} and {dtype} differ in size", arg.dtype()));
        }
        Ok(Value::Expr(Expr::reinterpret(dtype, arg)))
    }

    fn select(&mut self, args: &[&Node], at: Span) -> Result<Value, Problem> {
        let [cond, then, otherwise] = exactly(args, "Select", at)?;
        let cond = self.condition(cond)?;
        let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
        let typed = |v: &Value| if let Value::Expr(e) = v { Some(e.dtype()) } else { None };
        if let (Some(x), Some(y)) = (typed(&then), typed(&otherwise))
            && x != y
        {
            return problem(at, format!("both values of T.Select have one dtype, not {x} and {y}"));
        }
        let (then, otherwise) = match_types(then, otherwise, at)?;
        Ok(Value::Expr(Expr::new(ExprKind::Select { cond, then, otherwise })))
    }

    /// `(a + b - 1) // b`
    fn ceildiv(&mut self, args: &[&Node], at: Span) -> Result<Value, Problem> {
        let [a, b] = exactly(args, "ceildiv", at)?;
        let (a, b) = (self.value(a)?, self.value(b)?);
        let sum = value::binary(BinOp::Add, a, b.clone(), at)?;
        let sum = value::binary(BinOp::Sub, sum, Value::Int(1), at)?;
        value::binary(BinOp::FloorDiv, sum, b, at)
    }

    fn abs(&mut self, args: &[&Node], at: Span) -> Result<Value, Problem> {
        let [arg] = exactly(args, "abs", at)?;
        let e = self.expr(arg)?;
        let dtype = e.dtype();
        number_type(dtype, at)?;
        if dtype.is_float() {
            return Ok(Value::Expr(Expr::call(Intrin::Fabs, vec![e], dtype)));
        }
        let zero = Expr::int(0, dtype);
        let cond = Expr::binary(BinOp::Ge, e.clone(), zero.clone());
        Ok(Value::Expr(Expr::new(ExprKind::Select { cond, then: e.clone(), otherwise: zero - e })))
    }

    /// `T.Let(body, where={x: value})`
    fn let_in(&mut self, args: &[Node], keywords: &Keywords, node: &Node) -> Result<Value, Problem> {
        let ([body], [(key, bindings)]) = (args, keywords) else {
            return problem(node.at, "T.Let is written T.Let(body, where={x: value})");
        };
        let NodeKind::Dict(items) = &bindings.kind else {
            return problem(bindings.at, "`where=` takes a dictionary {x: value}");
        };
        if key != "where" {
            return problem(bindings.at, format!("T.Let has no argument `{key}`"));
        }
        self.push();
        let result = self.let_items(items, body);
        self.pop();
        result
    }

    fn let_items(&mut self, items: &[(Node, Node)], body: &Node) -> Result<Value, Problem> {
        let mut bound = vec![];
        for (var, value) in items {
            let Some(user) = var.dotted() else { return problem(var.at, "the name of a variable was expected") };
            let mut value = self.value(value)?;
            if let Some(Binding::Declared(dtype)) = self.lookup(&user) {
                value = Value::Expr(value.to(*dtype, var.at)?);
            }
            let value = value.expr();
            let name = self.bind_var(&user, value.dtype());
            bound.push((name, value));
        }
        let mut e = self.expr(body)?;
        for (var, value) in bound.into_iter().rev() {
            e = Expr::new(ExprKind::Let { var, value, body: e });
        }
        Ok(Value::Expr(e))
    }

    /// A call that Daylight keeps as it is.
    fn opaque(&mut self, name: &str, args: &[Node], keywords: &Keywords, at: Span) -> Result<Expr, Problem> {
        if self.tile {
            return problem(at, format!("T.{name} is not known in tile programs"));
        }
        let mut all = vec![];
        self.opaque_args(args, keywords, &mut all)?;
        let typed = matches!(name, "call_extern" | "call_pure_extern" | "call_intrin" | "call_llvm_pure_intrin");
        let dtype = match args.first() {
            Some(n) if typed => dtype_named(str_of(n, "the first argument")?, n.at)?,
            _ if name.starts_with("tvm_warp_shuffle") => all.get(1).map_or(DType::Handle, Expr::dtype),
            _ => DType::Handle,
        };
        Ok(Expr::new(ExprKind::Extern { callee: name.into(), args: all, dtype }))
    }

    fn opaque_args(&mut self, args: &[Node], keywords: &Keywords, out: &mut Vec<Expr>) -> Result<(), Problem> {
        for n in args {
            out.push(self.opaque_arg(n)?);
        }
        for (key, n) in keywords {
            let value = self.opaque_arg(n)?;
            let dtype = value.dtype();
            out.push(Expr::new(ExprKind::Extern { callee: format!("{key}=").into(), args: vec![value], dtype }));
        }
        Ok(())
    }

    /// Arguments of opaque calls may also be strings, lists, lambdas and whole buffers.
    pub(super) fn opaque_arg(&mut self, node: &Node) -> Result<Expr, Problem> {
        let other =
            |callee: &str, args| Expr::new(ExprKind::Extern { callee: callee.into(), args, dtype: DType::Handle });
        match &node.kind {
            NodeKind::Str(s) => Ok(Expr::new(ExprKind::Str(s.as_str().into()))),
            NodeKind::Lambda(text) => Ok(other("lambda", vec![Expr::new(ExprKind::Str(text.as_str().into()))])),
            NodeKind::List(items) => {
                let items = items.iter().map(|n| self.opaque_arg(n)).collect::<Result<_, _>>()?;
                Ok(other("[]", items))
            }
            NodeKind::Name(_) if self.is_buffer(node) => self.whole_buffer(node),
            _ => self.expr(node),
        }
    }
}

fn intrinsic(name: &str) -> Option<(Intrin, usize)> {
    Intrin::by_name(if name == "power" { "pow" } else { name })
}

fn number_type(dtype: DType, at: Span) -> Result<(), Problem> {
    if dtype == DType::Handle { problem(at, "a number was expected here, not a handle") } else { Ok(()) }
}

/// All values with the dtype that they have in common; literals alone become `float32`.
fn same_type(values: Vec<Value>, at: Span) -> Result<Vec<Expr>, Problem> {
    if values.iter().all(|v| !matches!(v, Value::Expr(_))) {
        return values.into_iter().map(|v| v.to(DType::F32, at)).collect();
    }
    let mut common = values[0].clone();
    for v in &values[1..] {
        common = Value::Expr(match_types(common, v.clone(), at)?.0);
    }
    let dtype = common.expr().dtype();
    values.into_iter().map(|v| v.to(dtype, at)).collect()
}

/// The arguments, exactly `N` of them.
pub(super) fn arity<'n, const N: usize>(args: &'n [Node], name: &str, at: Span) -> Result<[&'n Node; N], Problem> {
    let all: Vec<&Node> = args.iter().collect();
    exactly(&all, name, at)
}

fn exactly<'n, const N: usize>(args: &[&'n Node], name: &str, at: Span) -> Result<[&'n Node; N], Problem> {
    <[&Node; N]>::try_from(args).or_else(|_| {
        let s = if N == 1 { "" } else { "s" };
        problem(at, format!("T.{name} takes {N} argument{s}, not {}", args.len()))
    })
}

fn unknown<T>(name: &str, at: Span) -> Result<T, Problem> {
    if dtype_named(name, at).is_err_and(|p| p.message.contains("vector type")) {
        return problem(at, format!("T.{name} is a vector type, which is not supported; write scalar operations"));
    }
    let known = ops::BINARY.iter().map(|r| r.node);
    let known = known.chain(OWN).chain(Intrin::ALL.map(|i| i.1)).chain(DType::ALL.map(|d| d.1));
    let hint = nearest(name, known).map_or_else(String::new, |n| format!("; did you mean `T.{n}`?"));
    problem(at, format!("`T.{name}` is not known{hint}"))
}

/// A value for a place of that dtype.
pub(super) fn fitted(v: Value, dtype: DType, at: Span) -> Result<Expr, Problem> {
    match v {
        Value::Float(f) if !dtype.is_float() => convert(dtype, Expr::float(f, DType::F32), at),
        v => v.to(dtype, at),
    }
}
