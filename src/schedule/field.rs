//! How operands of a step are written and read, one kind of operand each.

use super::Operand;
use crate::ir::text::Arg;
use crate::ir::{AttrValue, BinOp, DType, Expr, ExprKind, Name, Scope, ThreadTag};

/// A kind of operand.
pub trait Field: Sized {
    /// A list. One that is the only operand of its step is written without brackets: `fuse(i0, i1)`.
    const LIST: bool = false;

    /// The text of the operand.
    fn print(&self) -> String;

    /// The operand that `arg` stands for, or what was expected there.
    fn read(arg: &Arg) -> Result<Self, String>;
}

/// The arguments of a step with `N` operands, one for each; `None` where they are not as many.
pub fn operands<const N: usize>(args: Vec<Arg>, lists: [bool; N]) -> Option<[Arg; N]> {
    let args = if matches!(lists[..], [true]) { vec![Arg::List(args)] } else { args };
    args.try_into().ok()
}

/// The text of all operands of a step.
pub fn joined(operands: &[String]) -> String {
    match operands {
        [list] if list.starts_with('[') => list[1..list.len() - 1].to_string(),
        all => all.join(", "),
    }
}

fn expected<T>(what: &str, found: &Arg) -> Result<T, String> {
    Err(format!("expected {what}, found {found:?}"))
}

impl Field for Name {
    fn print(&self) -> String {
        self.to_string()
    }

    fn read(arg: &Arg) -> Result<Name, String> {
        if let Arg::Word(w) = arg { Ok(Name::new(w)) } else { expected("a name", arg) }
    }
}

impl Field for Option<Name> {
    fn print(&self) -> String {
        self.as_ref().map_or("None", Name::as_str).to_string()
    }

    fn read(arg: &Arg) -> Result<Option<Name>, String> {
        Name::read(arg).map(|name| Some(name).filter(|n| n.as_str() != "None"))
    }
}

impl Field for i64 {
    fn print(&self) -> String {
        self.to_string()
    }

    fn read(arg: &Arg) -> Result<i64, String> {
        if let Arg::Int(n) = arg { Ok(*n) } else { expected("an integer", arg) }
    }
}

impl Field for Option<i64> {
    fn print(&self) -> String {
        self.map_or("None".to_string(), |n| n.to_string())
    }

    fn read(arg: &Arg) -> Result<Option<i64>, String> {
        match arg {
            Arg::Int(n) => Ok(Some(*n)),
            Arg::Word(w) if w == "None" => Ok(None),
            other => expected("an integer or None", other),
        }
    }
}

impl Field for usize {
    fn print(&self) -> String {
        self.to_string()
    }

    fn read(arg: &Arg) -> Result<usize, String> {
        match arg {
            Arg::Int(n) if *n >= 0 => Ok(*n as usize),
            other => expected("a position from 0", other),
        }
    }
}

impl Field for String {
    fn print(&self) -> String {
        format!("\"{}\"", self.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
    }

    fn read(arg: &Arg) -> Result<String, String> {
        if let Arg::Str(s) = arg { Ok(s.clone()) } else { expected("a quoted string", arg) }
    }
}

impl<T: Field> Field for Vec<T> {
    const LIST: bool = true;

    fn print(&self) -> String {
        format!("[{}]", self.iter().map(T::print).collect::<Vec<_>>().join(", "))
    }

    fn read(arg: &Arg) -> Result<Vec<T>, String> {
        if let Arg::List(items) = arg { items.iter().map(T::read).collect() } else { expected("a list", arg) }
    }
}

impl Field for DType {
    fn print(&self) -> String {
        self.to_string().print()
    }

    fn read(arg: &Arg) -> Result<DType, String> {
        String::read(arg)?.parse()
    }
}

impl Field for Scope {
    fn print(&self) -> String {
        self.name().to_string().print()
    }

    fn read(arg: &Arg) -> Result<Scope, String> {
        String::read(arg).map(|name| Scope::by_name(&name))
    }
}

impl Field for ThreadTag {
    fn print(&self) -> String {
        self.name().to_string()
    }

    fn read(arg: &Arg) -> Result<ThreadTag, String> {
        let name = Name::read(arg)?;
        ThreadTag::by_name(name.as_str()).ok_or_else(|| format!("no hardware axis is called {name}"))
    }
}

impl Field for Operand {
    fn print(&self) -> String {
        self.name().to_string().print()
    }

    fn read(arg: &Arg) -> Result<Operand, String> {
        let name = String::read(arg)?;
        let found = Operand::ALL.into_iter().find(|o| o.name() == name);
        found.ok_or_else(|| format!("no operand is called {name}: there are left, right and result"))
    }
}

impl Field for AttrValue {
    fn print(&self) -> String {
        match self {
            AttrValue::Bool(true) => "True".to_string(),
            AttrValue::Bool(false) => "False".to_string(),
            AttrValue::Int(n) => n.print(),
            AttrValue::Typed(n, dtype) => format!("{dtype}({n})"),
            AttrValue::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
            AttrValue::Str(s) => s.print(),
            AttrValue::List(items) => items.print(),
            AttrValue::Dict(items) => {
                let items: Vec<_> = items.iter().map(|(k, v)| format!("{}: {}", k.print(), v.print())).collect();
                format!("{{{}}}", items.join(", "))
            }
            AttrValue::Raw(s) => format!("raw({})", s.print()),
        }
    }

    fn read(arg: &Arg) -> Result<AttrValue, String> {
        Ok(match arg {
            Arg::Word(w) if w == "True" => AttrValue::Bool(true),
            Arg::Word(w) if w == "False" => AttrValue::Bool(false),
            Arg::Word(w) if w == "inf" => AttrValue::Float(f64::INFINITY.to_bits()),
            Arg::Word(w) => return Err(format!("expected a value, found {w}")),
            Arg::Int(n) => AttrValue::Int(*n),
            Arg::Float(x) => AttrValue::Float(x.to_bits()),
            Arg::Str(s) => AttrValue::Str(s.clone()),
            Arg::List(_) => AttrValue::List(Field::read(arg)?),
            Arg::Dict(items) => {
                let pair = |(k, v): &(String, Arg)| Ok((k.clone(), AttrValue::read(v)?));
                AttrValue::Dict(items.iter().map(pair).collect::<Result<_, String>>()?)
            }
            Arg::Binary(..) => return Err("expected a value, found an operation".to_string()),
            Arg::Call(name, args) => match (name.as_str(), args.as_slice()) {
                ("raw", [Arg::Str(s)]) => AttrValue::Raw(s.clone()),
                (dtype, [Arg::Int(n)]) => AttrValue::Typed(*n, dtype.parse::<DType>()?),
                _ => return Err(format!("expected a value, found {name}(...)")),
            },
        })
    }
}

/// An index in terms of names. (Functions print `T.FloorDiv(i, 1)` for what Python would evaluate.)
impl Field for Expr {
    fn print(&self) -> String {
        infix(self, 0)
    }

    fn read(arg: &Arg) -> Result<Expr, String> {
        match arg {
            Arg::Word(w) => Ok(Expr::var(w.as_str(), DType::I32)),
            Arg::Int(n) if i32::try_from(*n).is_ok() => Ok(Expr::int(*n, DType::I32)),
            Arg::Binary(op, a, b) => Ok(Expr::binary(*op, Expr::read(a)?, Expr::read(b)?)),
            other => expected("an index such as i // 4", other),
        }
    }
}

/// An expression as it is read, in parentheses where its operator binds less than `rank`.
pub fn infix(e: &Expr, rank: u8) -> String {
    let ExprKind::Binary { op, a, b } = e.kind() else { return e.to_string() };
    let (sign, own) = match op {
        BinOp::Add => ("+", 0),
        BinOp::Sub => ("-", 0),
        BinOp::Mul => ("*", 1),
        BinOp::FloorDiv => ("//", 1),
        BinOp::FloorMod => ("%", 1),
        _ => return e.to_string(),
    };
    let text = format!("{} {sign} {}", infix(a, own), infix(b, own + 1));
    if own < rank { format!("({text})") } else { text }
}
