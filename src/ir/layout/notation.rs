//! Prints layouts in the notation that `read` reads: `S[(32, 8) : (1 @ laneid, 1)]`,
//! `S[(4, 8)]` (row-major), `S[32 : 1 @ laneid] + R[4 : 1 @ warpid] + 5`,
//! `ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[(8, 64)]))`.

use super::{Axis, Iter, TileLayout, row_major_iters};
use std::fmt;

impl fmt::Display for TileLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.swizzle {
            None => self.write_spec(f),
            Some(s) => {
                write!(f, "ComposeLayout({s}, TileLayout(")?;
                self.write_spec(f)?;
                f.write_str("))")
            }
        }
    }
}

impl TileLayout {
    /// The layout as an argument of a declaration: `TileLayout(S[(4, 8)])`, or `ComposeLayout(...)`.
    pub fn call_text(&self) -> String {
        if self.swizzle.is_some() { self.to_string() } else { format!("TileLayout({self})") }
    }

    fn write_spec(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_iters(f, 'S', &self.shard)?;
        if !self.replica.is_empty() {
            f.write_str(" + ")?;
            write_iters(f, 'R', &self.replica)?;
        }
        self.offset.iter().try_for_each(|(axis, v)| write!(f, " + {}", Stride(*v, *axis)))
    }
}

fn write_iters(f: &mut fmt::Formatter<'_>, letter: char, iters: &[Iter]) -> fmt::Result {
    let extents: Vec<i64> = iters.iter().map(|it| it.extent).collect();
    let plain = row_major_iters(&extents).is_ok_and(|r| r == iters);
    match iters {
        [it] if !plain => write!(f, "{letter}[{} : {}]", it.extent, Stride(it.stride, it.axis)),
        _ => {
            write!(f, "{letter}[{}", tuple(&extents))?;
            if !plain {
                let strides: Vec<Stride> = iters.iter().map(|it| Stride(it.stride, it.axis)).collect();
                write!(f, " : {}", tuple(&strides))?;
            }
            f.write_str("]")
        }
    }
}

/// A Python tuple; one of a single item has its comma.
fn tuple<T: fmt::Display>(items: &[T]) -> String {
    let text = items.iter().map(T::to_string).collect::<Vec<_>>().join(", ");
    if items.len() == 1 { format!("({text},)") } else { format!("({text})") }
}

/// `4 @ laneid`; a plain number on `m`.
struct Stride(i64, Axis);

impl fmt::Display for Stride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Axis::M => write!(f, "{}", self.0),
            axis => write!(f, "{} @ {axis}", self.0),
        }
    }
}
