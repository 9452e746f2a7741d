//! Prints tile calls as tile programs spell them.

use super::kernel_print::text;
use super::{AttrValue, Expr, Tile, TileArg, TileCall};
use std::fmt::{self, Display, Formatter};

impl Display for Tile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.begin.iter().zip(&self.extent).map(|(b, n)| slice(b, *n)).collect();
        write!(f, "{}[{}]", self.buffer, dims.join(", "))
    }
}

fn slice(begin: &Expr, extent: i64) -> String {
    match begin.as_int() {
        Some(b) => format!("{b}:{}", b + extent),
        None => format!("{b}:{b} + {extent}", b = text(begin)),
    }
}

impl Display for TileArg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TileArg::Tile(t) => write!(f, "{t}"),
            TileArg::Scalar(e) => f.write_str(&text(e)),
        }
    }
}

impl Display for TileCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Tx.{}.{}({}", self.scope.name(), self.op.name(), self.dst)?;
        self.args.iter().try_for_each(|a| write!(f, ", {a}"))?;
        if self.op.is_reduction() {
            let axes: Vec<String> = self.axes.iter().map(|a| format!("{a},")).collect();
            write!(f, ", axes=({})", axes.join(" "))?;
            write!(f, ", accum={}", if self.accum { "True" } else { "False" })?;
        } else if self.accum {
            write!(f, ", accum=True")?;
        }
        self.operands.iter().try_for_each(|(k, v)| write!(f, ", {k}={v}"))?;
        self.config.iter().try_for_each(|(k, v)| write!(f, ", {k}={}", value(v)))?;
        self.forced.iter().try_for_each(|v| write!(f, ", dispatch=\"{v}\""))?;
        f.write_str(")")
    }
}

fn value(v: &AttrValue) -> String {
    match v {
        AttrValue::Bool(true) => "True".into(),
        AttrValue::Bool(false) => "False".into(),
        AttrValue::Int(n) | AttrValue::Typed(n, _) => n.to_string(),
        AttrValue::Float(bits) => format!("{:?}", f64::from_bits(*bits)),
        AttrValue::Str(s) => format!("\"{s}\""),
        AttrValue::List(items) => format!("[{}]", items.iter().map(value).collect::<Vec<_>>().join(", ")),
        AttrValue::Dict(items) => {
            let items: Vec<String> = items.iter().map(|(k, v)| format!("\"{k}\": {}", value(v))).collect();
            format!("{{{}}}", items.join(", "))
        }
        AttrValue::Raw(s) => s.clone(),
    }
}
