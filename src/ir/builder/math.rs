//! Operators between expressions, and between expressions and numbers, which take the type of the expression.

use crate::ir::{BinOp, Expr, Intrin, UnOp};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

impl Expr {
    /// A function of one argument, such as [`Intrin::Exp`], of this value.
    pub fn math(self, op: Intrin) -> Expr {
        let dtype = self.dtype();
        Expr::call(op, vec![self], dtype)
    }

    /// The greater of two values.
    pub fn max(self, other: Expr) -> Expr {
        Expr::binary(BinOp::Max, self, other)
    }

    /// The smaller of two values.
    pub fn min(self, other: Expr) -> Expr {
        Expr::binary(BinOp::Min, self, other)
    }
}

impl From<i64> for Expr {
    /// An `int64` constant.
    fn from(value: i64) -> Expr {
        Expr::i64(value)
    }
}

impl From<&Expr> for Expr {
    fn from(e: &Expr) -> Expr {
        e.clone()
    }
}

impl Div for Expr {
    type Output = Expr;
    /// Floats are divided, integers rounded toward minus infinity.
    fn div(self, by: Expr) -> Expr {
        let op = if self.dtype().is_float() { BinOp::Div } else { BinOp::FloorDiv };
        Expr::binary(op, self, by)
    }
}

impl Rem for Expr {
    type Output = Expr;
    /// What is left of integers by [`Div`], with the sign of the divisor.
    fn rem(self, by: Expr) -> Expr {
        Expr::binary(BinOp::FloorMod, self, by)
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::unary(UnOp::Neg, self)
    }
}

macro_rules! with_numbers {
    ($tr:ident, $f:ident) => {
        impl $tr<f64> for Expr {
            type Output = Expr;
            fn $f(self, number: f64) -> Expr {
                let number = Expr::constant(number, self.dtype());
                $tr::$f(self, number)
            }
        }
        impl $tr<i64> for Expr {
            type Output = Expr;
            fn $f(self, number: i64) -> Expr {
                let dtype = self.dtype();
                let number =
                    if dtype.is_float() { Expr::float(number as f64, dtype) } else { Expr::int(number, dtype) };
                $tr::$f(self, number)
            }
        }
    };
}
with_numbers!(Add, add);
with_numbers!(Sub, sub);
with_numbers!(Mul, mul);
with_numbers!(Div, div);
with_numbers!(Rem, rem);
