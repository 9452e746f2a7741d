//! Values of narrow floats (16 or 8 bits) as they lie in memory, for both languages.
//!
//! An element that is loaded where it exists, and another or zero elsewhere, is chosen as it lies in memory. Widened to float32
//! in one arm of the choice, it is waited for where it is loaded: a compiler makes a branch of it, with load and conversion
//! inside. Chosen first, it is a load under a predicate, and others are on their way meanwhile. Of the greater of two elements
//! nothing is converted: rounding what was widened is work that a compiler leaves in, since it might change a NaN.
//!
//! before: `x = f16(i < n ? f32(p[i]) : 0.0f)`, `x = f16(f32(x) <= f32(y) ? f32(y) : f32(x))`
//! after:  `x = i < n ? p[i] : 0`,              `x = f32(x) <= f32(y) ? y : x`

use super::expr::level::{OR, TERNARY};
use super::expr::{ExprWriter, Text};
use super::is_narrow;
use crate::ir::{DType, Expr, ExprKind};

impl ExprWriter<'_> {
    /// The value as it is stored in memory.
    pub fn stored(&mut self, e: &Expr) -> Text {
        let dtype = e.dtype();
        if !is_narrow(dtype) {
            return self.value(e);
        }
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => Text::primary(self.element(buffer, &indices[0])),
            ExprKind::Reinterpret { arg, .. } => self.stored(arg),
            _ => self.chosen_element(e).unwrap_or_else(|| {
                let raw = self.raw(e).0.text;
                let narrow = self.prelude.narrow(dtype);
                Text::primary(format!("{narrow}({raw})"))
            }),
        }
    }

    /// The value of a choice of elements or zero, widened after it; `None` where it is another, or there is a shorter way
    /// to an element.
    pub fn widened_choice(&mut self, e: &Expr) -> Option<Text> {
        let (_, arms) = choice(e)?;
        if arms.into_iter().any(|arm| self.is_packed(arm)) {
            return None;
        }
        let stored = self.chosen_element(e)?;
        Some(self.widened(stored.text, e.dtype()))
    }

    /// A choice of elements or zero, as they lie in memory.
    fn chosen_element(&mut self, e: &Expr) -> Option<Text> {
        let (cond, arms) = choice(e)?;
        let cond = self.value(cond).at(OR);
        let [then, otherwise] = arms.map(|arm| match arm.kind() {
            ExprKind::Load { .. } => self.under_condition(|w| w.stored(arm)).at(OR),
            _ => "0".into(),
        });
        Some(Text::new(format!("{cond} ? {then} : {otherwise}"), TERNARY))
    }

    /// True for elements that lie in registers in pairs.
    fn is_packed(&mut self, e: &Expr) -> bool {
        let ExprKind::Load { buffer, indices, dtype } = e.kind() else { return false };
        let index = self.under_condition(|w| w.value(&indices[0]));
        self.elements.widened(buffer, &index, *dtype, self.prelude).is_some()
    }
}

/// The condition and both arms of a choice of narrow elements, one of which may be zero, whose bits are zeros.
fn choice(e: &Expr) -> Option<(&Expr, [&Expr; 2])> {
    let (ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise }) = e.kind() else {
        return None;
    };
    let is_element = |e: &Expr| matches!(e.kind(), ExprKind::Load { .. });
    // a type of powers alone has no zero
    let is_zero = |e: &Expr| e.dtype() != DType::E8M0 && e.as_float().is_some_and(|v| v.to_bits() == 0);
    let arms = [then, otherwise];
    let stored = arms.iter().any(|e| is_element(e)) && arms.iter().all(|e| is_element(e) || is_zero(e));
    (is_narrow(e.dtype()) && stored).then_some((cond, arms))
}
