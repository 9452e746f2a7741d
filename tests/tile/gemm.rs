//! Matrix products.

use crate::case::{cuda, simulate};
pub use crate::gemm_cases::cases;
use crate::gemm_shapes::{Product, specs};

/// A hundred products of random shapes by `mma`.
pub fn random_products() -> Vec<Product> {
    specs(100, 7).iter().enumerate().map(|(i, s)| s.product(i)).collect()
}

fn right(p: &Product, target: &str) {
    let got = simulate(&p.func, target, &p.args);
    let got = got.last().expect("a result");
    assert_eq!(p.mistake(got), None, "{}", cuda(&p.func, target));
}

#[test]
fn random_shapes_by_mma_are_right_in_the_simulator() {
    for (i, s) in specs(100, 7).iter().enumerate().take(12) {
        right(&s.product(i), "sim:sm_90a");
    }
}
