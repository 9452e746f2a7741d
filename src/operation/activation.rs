//! Functions of one value.

use crate::ir::{Expr, Intrin, nearest};

/// A function of one value, by its name.
pub(super) struct Activation {
    name: &'static str,
    apply: fn(Expr) -> Expr,
}

/// Names of all, for help texts.
pub(super) const NAMES: &str = "relu, gelu, gelu_tanh, silu, sigmoid, tanh, exp, sqrt, rsqrt, square, abs or neg";

const ALL: [Activation; 12] = [
    Activation { name: "relu", apply: |x| zero(&x).max(x) },
    // x (1 + erf(x / sqrt(2))) / 2
    Activation {
        name: "gelu",
        apply: |x| x.clone() * ((x * std::f64::consts::FRAC_1_SQRT_2).math(Intrin::Erf) * 0.5 + 0.5),
    },
    Activation { name: "gelu_tanh", apply: gelu_tanh },
    Activation { name: "silu", apply: |x| x.clone() * x.math(Intrin::Sigmoid) },
    Activation { name: "sigmoid", apply: |x| x.math(Intrin::Sigmoid) },
    Activation { name: "tanh", apply: |x| x.math(Intrin::Tanh) },
    Activation { name: "exp", apply: |x| x.math(Intrin::Exp) },
    Activation { name: "sqrt", apply: |x| x.math(Intrin::Sqrt) },
    Activation { name: "rsqrt", apply: |x| x.math(Intrin::Rsqrt) },
    Activation { name: "square", apply: |x| x.clone() * x },
    Activation { name: "abs", apply: |x| x.math(Intrin::Fabs) },
    Activation { name: "neg", apply: |x| zero(&x) - x },
];

fn zero(like: &Expr) -> Expr {
    Expr::constant(0.0, like.dtype())
}

/// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
fn gelu_tanh(x: Expr) -> Expr {
    let cube = x.clone() * x.clone() * x.clone() * 0.044715;
    let inner = (x.clone() + cube) * (2.0 / std::f64::consts::PI).sqrt();
    x * (inner.math(Intrin::Tanh) * 0.5 + 0.5)
}

/// The function of that name of a value.
///
/// # Errors
/// An unknown name, or one that integers do not have.
pub(super) fn activation(name: &str, value: Expr) -> Result<Expr, String> {
    let Some(found) = ALL.iter().find(|a| a.name == name) else {
        return Err(match nearest(name, ALL.iter().map(|a| a.name)) {
            Some(near) => format!("there is no function `{name}`; did you mean `{near}`?"),
            None => format!("there is no function `{name}`; there are {NAMES}"),
        });
    };
    if !value.dtype().is_float() && !matches!(name, "relu" | "square" | "neg") {
        return Err(format!("`{name}` is for floats; integers have relu, square and neg"));
    }
    Ok((found.apply)(value))
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_are_named() {
        let names: Vec<&str> = super::ALL.iter().map(|a| a.name).collect();
        let told = super::NAMES.replace(" or ", ", ");
        assert_eq!(names, told.split(", ").collect::<Vec<_>>());
    }
}
