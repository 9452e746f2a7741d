//! What is done with each element of a result before it is stored: a block for each step, the last to the output.

use super::Values;
use super::activation::activation;
use super::values::{Opt, flag, optional};
use crate::ir::{DType, Expr, PrimFuncBuilder, TensorVar};

pub(super) const SCALE: Opt = optional("scale", "X", "Multiply by this number");
pub(super) const BIAS: Opt = flag("bias", "Add a vector along the last dimension");
pub(super) const ACTIVATION: Opt = optional(
    "activation",
    "NAME",
    "Apply relu, gelu, gelu_tanh, silu, sigmoid, tanh, exp, sqrt, rsqrt, square, abs or neg",
);
pub(super) const RESIDUAL: Opt = flag("residual", "Add a tensor of the result's shape, after all else");

/// The element that a step makes of one, at indices.
type Apply = Box<dyn FnOnce(Expr, &[Expr]) -> Expr>;

/// Steps from a result in one type to the output in another.
#[derive(Default)]
pub(super) struct Steps(Vec<(String, Apply)>);

impl Steps {
    /// Adds a step.
    pub fn then(&mut self, name: &str, apply: impl FnOnce(Expr, &[Expr]) -> Expr + 'static) {
        self.0.push((name.to_string(), Box::new(apply)));
    }

    /// What all steps make of an element, in one expression.
    pub fn applied(self, x: Expr, at: &[Expr]) -> Expr {
        self.0.into_iter().fold(x, |x, (_, apply)| apply(x, at))
    }

    /// Those that the options of a product ask for, whose parameters come next.
    pub fn of(
        values: &Values,
        f: &mut PrimFuncBuilder,
        dtype: DType,
        shape: &[Expr],
        sum: DType,
    ) -> Result<Steps, String> {
        let mut steps = Steps::default();
        steps.add(values, f, dtype, shape, sum)?;
        Ok(steps)
    }

    /// Adds those that the options of a product ask for, whose parameters come next.
    pub fn add(
        &mut self,
        values: &Values,
        f: &mut PrimFuncBuilder,
        dtype: DType,
        shape: &[Expr],
        sum: DType,
    ) -> Result<(), String> {
        let steps = self;
        if values.has("scale") {
            let scale = values.number("scale")?;
            if !sum.is_float() {
                return Err(format!("--scale {scale}: sums of {dtype} are integers; take a type of floats"));
            }
            steps.then("scaled", move |x, _| x * scale);
        }
        if values.has("bias") {
            let bias = f.param("bias", dtype, shape.last().cloned());
            steps.then("biased", move |x, at| x + Expr::cast(sum, bias.at(at.last())));
        }
        if let Some(name) = values.text("activation") {
            // Whether there is one is known before its turn.
            activation(name, Expr::constant(0.0, sum)).map_err(|e| format!("--activation {name}: {e}"))?;
            let name = name.to_string();
            steps.then(&name.clone(), move |x, _| activation(&name, x.clone()).unwrap_or(x));
        }
        if values.has("residual") {
            let residual = f.param("residual", dtype, shape.to_vec());
            steps.then("added", move |x, at| x + Expr::cast(sum, residual.at(at)));
        }
        Ok(())
    }

    /// Declares the output `name`, gives the tensor of type `sum` to `write`, then takes the steps. Where there are none and the types
    /// agree that is the output itself.
    pub fn finish(
        mut self,
        f: &mut PrimFuncBuilder,
        (name, out): (&str, DType),
        (first, sum): (&str, DType),
        shape: &[Expr],
        write: impl FnOnce(&mut PrimFuncBuilder, &TensorVar),
    ) {
        let output = f.param(name, out, shape.to_vec());
        if out != sum {
            self.then("cast", move |x, _| Expr::cast(out, x));
        }
        if self.0.is_empty() {
            return write(f, &output);
        }
        let mut from = f.intermediate(first, sum, shape.to_vec());
        write(f, &from);
        let last = self.0.len() - 1;
        for (k, (step, apply)) in self.0.into_iter().enumerate() {
            let to = if k == last { output.clone() } else { f.intermediate(&step, sum, shape.to_vec()) };
            f.compute(&step, &to, |at| apply(from.at(at), at));
            from = to;
        }
    }
}
