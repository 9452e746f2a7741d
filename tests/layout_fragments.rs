//! Fragments of tensor-core instructions against the per-lane formulas of the PTX ISA.

use daylight::ir::Expr;
use daylight::ir::layout::{Axis, Fragment, Point, TileLayout};

/// Row and column of element `i` of lane `lane`, as the PTX ISA states them.
fn row_and_column(fragment: Fragment, lane: i64, i: i64) -> (i64, i64) {
    let (group, member) = (lane >> 2, lane % 4);
    match fragment {
        Fragment::M16N8K16A => (
            if i < 2 || (4..6).contains(&i) { group } else { group + 8 },
            if i < 4 { member * 2 + (i & 1) } else { member * 2 + (i & 1) + 8 },
        ),
        Fragment::M16N8K16B => (if i < 2 { member * 2 + (i & 1) } else { member * 2 + (i & 1) + 8 }, group),
        Fragment::M16N8K8Tf32A => {
            (if i == 0 || i == 2 { group } else { group + 8 }, if i < 2 { member } else { member + 4 })
        }
        Fragment::M16N8K8Tf32B => (if i == 0 { member } else { member + 4 }, group),
        Fragment::M16N8K32Int8A => (
            if i < 4 || (8..12).contains(&i) { group } else { group + 8 },
            if i < 8 { member * 4 + (i & 3) } else { member * 4 + (i & 3) + 16 },
        ),
        Fragment::M16N8K32Int8B => (if i < 4 { member * 4 + (i & 3) } else { member * 4 + (i & 3) + 16 }, group),
        Fragment::M16N8Acc => (if i < 2 { group } else { group + 8 }, member * 2 + (i & 1)),
        // lane 4 r + c receives elements 2c and 2c + 1 of row r; with .trans, of column r
        Fragment::Ldmatrix => (group, member * 2 + i),
        Fragment::LdmatrixTrans => (member * 2 + i, group),
    }
}

#[test]
fn lanes_hold_what_the_isa_says() {
    for fragment in Fragment::ALL {
        let (layout, shape) = (fragment.layout(), fragment.shape());
        assert_eq!(layout.size(), shape[0] * shape[1]);
        assert!(layout.is_bijective(), "{fragment:?}");
        assert_eq!(layout.covers_scope(32), Ok(()));
        for lane in 0..32 {
            let mut held = layout.holds(&Point::default().with(Axis::LaneId, lane));
            held.sort_by_key(|h| h.1);
            assert_eq!(held.len() as i64, fragment.elements());
            for (i, (linear, register)) in held.into_iter().enumerate() {
                assert_eq!(register, i as i64);
                let (row, column) = row_and_column(fragment, lane, register);
                assert_eq!(linear, row * shape[1] + column, "{fragment:?} lane {lane} element {i}");
            }
        }
    }
}

#[test]
fn lane_and_register_lead_back_to_row_and_column() {
    for fragment in Fragment::ALL {
        let (layout, shape) = (fragment.layout(), fragment.shape());
        let bundle = layout.local_shape(&shape).expect("a bundle");
        for lane in 0..32 {
            for y in 0..fragment.elements() {
                let local = [Expr::i64(y / bundle[1]), Expr::i64(y % bundle[1])];
                let at = layout.coordinates(&shape, &|_| Expr::i64(lane), &local).expect("coordinates");
                let register = layout.local().memory_offset(&bundle, &local).expect("an offset");
                let (row, column) = row_and_column(fragment, lane, register.as_int().expect("a constant"));
                assert_eq!(at, vec![Expr::i64(row), Expr::i64(column)], "{fragment:?} lane {lane} element {y}");
            }
        }
    }
}

#[test]
fn printed_fragments_are_strided_over_lanes() {
    let printed: Vec<String> = Fragment::ALL.iter().map(|f| f.layout().to_string()).collect();
    assert_eq!(printed[0], "S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)]");
    assert_eq!(printed[6], "S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)]");
    assert_eq!(printed[7], "S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]");
    for (f, text) in Fragment::ALL.iter().zip(&printed) {
        assert_eq!(TileLayout::parse(text), Ok(f.layout()));
    }
}

#[test]
fn four_matrices_of_ldmatrix_are_the_operands_of_a_16_bit_mma() {
    let matrix = Fragment::Ldmatrix.layout();
    let read = |t: &str| TileLayout::parse(t).expect("a layout");
    let a = Fragment::M16N8K16A.layout();
    // the matrices come in the order rows 0-7, rows 8-15, then the right half
    assert_eq!(a.tiles_of(&matrix, &[16, 16], &[8, 8]), Ok(read("S[(2, 2) : (1, 2)]")));
    // a B operand stored K by N is loaded transposed
    let b = Fragment::M16N8K16B.layout();
    assert_eq!(b.tiles_of(&Fragment::LdmatrixTrans.layout(), &[16, 8], &[8, 8]), Ok(read("S[(2,)]")));
    assert!(b.tiles_of(&matrix, &[16, 8], &[8, 8]).is_err());
}

#[test]
fn warp_tiles_are_decomposed_into_fragments() {
    let read = |t: &str| TileLayout::parse(t).expect("a layout");
    let acc = Fragment::M16N8Acc;
    // a 64x64 tile of a block of 2x2 warps: each warp has 2x4 fragments in its registers
    let grid = read("S[(2, 2, 2, 4) : (2 @ warpid, 4, 1 @ warpid, 1)]");
    let whole = acc.layout().tile(&grid, &[4, 8], &acc.shape()).expect("a tile");
    assert_eq!(whole.covers_scope(128), Ok(()));
    assert_eq!(whole.span(Axis::M), 32);
    assert_eq!(whole.tiles_of(&acc.layout(), &[64, 64], &acc.shape()), Ok(grid.clone()));
    // the same over the threads of the block, or of a warpgroup
    for (axis, warps) in [("tx", "warpid"), ("tid_in_wg", "wid_in_wg")] {
        let threads = read(&format!(
            "S[(2, 2, 2, 8, 2, 4, 4, 2) : (64 @ {axis}, 16, 2, 4 @ {axis}, 32 @ {axis}, 4, 1 @ {axis}, 1)]"
        ));
        let found = threads.tiles_of(&acc.layout(), &[64, 64], &acc.shape()).expect("a grid");
        assert_eq!(found.to_string(), grid.to_string().replace("warpid", warps));
    }
    // the accumulator of a warpgroup, 64 rows in four warps, in a block of two warpgroups
    let group = acc.layout().tile(&read("S[4 : 1 @ wid_in_wg]"), &[4, 1], &acc.shape()).expect("a tile");
    let threads = read("S[(8, 2, 8, 4, 2) : (32 @ tx, 2, 4 @ tx, 1 @ tx, 1)]");
    assert_eq!(threads.tiles_of(&group, &[128, 8], &[64, 8]), Ok(read("S[2 : 1 @ wgid]")));
    // rows on lanes are no fragment
    let rows = read("S[(32, 8) : (1 @ laneid, 1)]");
    let why = rows.tiles_of(&acc.layout(), &[32, 8], &acc.shape()).expect_err("no fragment");
    assert_eq!(
        why,
        "along dimension 0 a tile of layout S[(32, 8) : (1 @ laneid, 1)] is not laid out as \
         S[(2, 8, 4, 2) : (2, 4 @ laneid, 1 @ laneid, 1)] is"
    );
}
