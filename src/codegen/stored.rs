//! Values of narrow floats (16 or 8 bits) as they lie in memory, for both languages.
//!
//! An element that is loaded where it exists, and zero elsewhere, is chosen as it lies in memory. Widened to float32 in one
//! arm of the choice, it is waited for where it is loaded: a compiler makes a branch of it, with load and conversion inside.
//! Chosen first, it is a load under a predicate, and others are on their way meanwhile.
//!
//! before: `x = f16(i < n ? f32(p[i]) : 0.0f)`
//! after:  `x = i < n ? p[i] : 0`

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
            _ => self.element_or_zero(e).unwrap_or_else(|| {
                let raw = self.raw(e).0.text;
                let narrow = self.prelude.narrow(dtype);
                Text::primary(format!("{narrow}({raw})"))
            }),
        }
    }

    /// The value of a choice of an element or zero, widened after it; `None` where it is another, or there is a shorter way
    /// to the element.
    pub fn widened_or_zero(&mut self, e: &Expr) -> Option<Text> {
        let (_, arms) = choice(e)?;
        if arms.into_iter().any(|arm| self.is_packed(arm)) {
            return None;
        }
        let stored = self.element_or_zero(e)?;
        Some(self.widened(stored.text, e.dtype()))
    }

    /// A choice of an element or zero, as both lie in memory.
    fn element_or_zero(&mut self, e: &Expr) -> Option<Text> {
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

/// The condition and both arms of a choice of one narrow element or zero, whose bits are zeros.
fn choice(e: &Expr) -> Option<(&Expr, [&Expr; 2])> {
    let (ExprKind::Select { cond, then, otherwise } | ExprKind::IfThenElse { cond, then, otherwise }) = e.kind() else {
        return None;
    };
    let is_element = |e: &Expr| matches!(e.kind(), ExprKind::Load { .. });
    // a type of powers alone has no zero
    let is_zero = |e: &Expr| e.dtype() != DType::E8M0 && e.as_float().is_some_and(|v| v.to_bits() == 0);
    let is_one = is_element(then) && is_zero(otherwise) || is_zero(then) && is_element(otherwise);
    (is_narrow(e.dtype()) && is_one).then_some((cond, [then, otherwise]))
}
