//! What the terms of the prior order, on all GPUs.

use super::*;
use crate::rules::Combine;
use crate::rules::space::tiles::Tiles;
use crate::target::HostCpu;

fn gpus() -> Vec<Target> {
    let host = HostCpu::default();
    let generations = ["80", "86", "89", "90a", "100a", "103a", "120a"];
    generations.iter().map(|n| Target::parse(&format!("cuda:sm_{n}"), &host).unwrap()).collect()
}

/// `waves` full waves of blocks of 256 threads with 64 bytes in flight each, 256 KiB per block.
fn launch(t: &Target, waves: f64) -> LaunchOutline {
    let blocks = (waves * (t.threads_per_sm / 256) as f64 * t.sms as f64).round() as i64;
    LaunchOutline {
        blocks,
        threads: 256,
        min_blocks: (t.threads_per_sm / 256) as i64,
        state_regs: 12,
        load_regs: 20,
        load_bytes: 16,
        in_flight: 64,
        steps: 16,
        read: blocks << 18,
        written: 0,
        instructions: 40,
        flops: blocks << 16,
        combine: Combine::across(256, 1, 32),
        ..LaunchOutline::default()
    }
}

fn time(t: &Target, l: LaunchOutline) -> f64 {
    ns(&Outline { launches: vec![l] }, t)
}

#[test]
fn more_bytes_in_flight_help_until_dram_is_full() {
    for t in gpus() {
        let few = launch(&t, 4.0);
        let with = |in_flight: i64| LaunchOutline { in_flight, steps: 1024 / in_flight, ..few.clone() };
        let times: Vec<f64> = [4, 8, 16, 32, 64].map(|b| time(&t, with(b))).to_vec();
        assert!(times.windows(2).all(|w| w[1] < w[0]), "{}: {times:?}", t.id);
        assert!(times[0] / times[1] > 1.2, "{}: {times:?}", t.id);
        assert!(times[3] / times[4] < 1.2, "{}: {times:?}", t.id);
    }
}

#[test]
fn a_block_more_than_a_wave_costs_more_than_its_bytes() {
    for t in gpus() {
        let one = launch(&t, 1.0);
        let bytes = one.read / one.blocks;
        let more = LaunchOutline { blocks: one.blocks + 1, read: one.read + bytes, ..one.clone() };
        let fair = time(&t, one.clone()) * (1.0 + 1.0 / one.blocks as f64);
        assert!(time(&t, more) > fair, "{}", t.id);
    }
}

#[test]
fn the_same_work_in_small_blocks_evens_out() {
    for t in gpus() {
        let one = launch(&t, 1.0);
        let four = LaunchOutline { read: one.read, flops: one.flops, steps: 4, ..launch(&t, 4.0) };
        assert!(time(&t, four) < time(&t, one), "{}", t.id);
    }
}

#[test]
fn idle_multiprocessors_second_launches_and_padding_cost() {
    for t in gpus() {
        let base = launch(&t, 4.0);
        let idle =
            LaunchOutline { blocks: t.sms as i64 / 4, steps: 16 * base.blocks / (t.sms as i64 / 4), ..base.clone() };
        assert!(time(&t, idle) > 1.5 * time(&t, base.clone()), "{}", t.id);
        let second = LaunchOutline { from_cache: true, blocks: 8, read: 1 << 14, steps: 1, ..base.clone() };
        let both = Outline { launches: vec![base.clone(), second] };
        assert!(ns(&both, &t) > time(&t, base.clone()) + 1000.0, "{}", t.id);
        let padded = LaunchOutline { padding: 2.0, steps: 32, ..base.clone() };
        assert!(time(&t, padded) > time(&t, base), "{}", t.id);
    }
}

#[test]
fn narrow_accesses_take_as_many_passes_as_wide_ones() {
    for t in gpus() {
        let wide = launch(&t, 4.0);
        let with = |load_bytes: i64| LaunchOutline { load_bytes, ..wide.clone() };
        let times: Vec<f64> = [16, 8, 4, 2, 1].map(|b| time(&t, with(b))).to_vec();
        assert!(times.windows(2).all(|w| w[0] <= w[1]), "{}: {times:?}", t.id);
        assert!(times[4] > 1.001 * times[0], "{}: {times:?}", t.id);
        let scattered = LaunchOutline { passes: Some(10.0 * wide.all_passes()), ..wide.clone() };
        assert!(time(&t, scattered) > time(&t, wide), "{}", t.id);
    }
}

#[test]
fn what_is_unjudged_chooses_no_default_and_pays_no_accesses() {
    for t in gpus() {
        let judged = launch(&t, 4.0);
        let unjudged = LaunchOutline { unjudged: true, ..judged.clone() };
        assert!(is_known(&Outline::one(judged.clone()), &t), "{}", t.id);
        assert!(!is_known(&Outline::one(unjudged.clone()), &t), "{}", t.id);
        assert!(time(&t, unjudged) < time(&t, judged), "{}", t.id);
    }
}

#[test]
fn a_block_alone_writes_while_nothing_is_read() {
    for t in gpus() {
        // The same bytes in flight on every multiprocessor: in one block, and in four that begin and end apart.
        let all = launch(&t, 8.0);
        let bytes = all.read / 2;
        let room = LaunchOutline { min_blocks: 4, state_regs: 40, steps: 1, ..all };
        let four = LaunchOutline { read: bytes, written: bytes, ..room };
        let one = LaunchOutline { threads: 1024, min_blocks: 1, blocks: four.blocks / 4, ..four.clone() };
        assert!(time(&t, one) > time(&t, four), "{}", t.id);
    }
}

#[test]
fn small_blocks_wait_for_each_other_to_start() {
    for t in gpus() {
        let one = LaunchOutline { steps: 1, read: 1 << 16, in_flight: 16, ..launch(&t, 1.0) };
        let with = |threads: i64| LaunchOutline { threads, blocks: (1 << 17) / threads, min_blocks: 4, ..one.clone() };
        let [small, large] = [32, 256].map(|n| time(&t, with(n)));
        assert!(small > large + 300.0, "{}: {small} {large}", t.id);
    }
}

#[test]
fn blocks_of_a_cluster_meet_in_every_round() {
    for t in gpus() {
        let alone = LaunchOutline { rounds: 2, steps: 1, read: 1 << 16, ..launch(&t, 0.5) };
        let pair = LaunchOutline { cluster: 2, ..alone.clone() };
        assert!(time(&t, pair) > time(&t, alone) + CLUSTER_NS / 2.0, "{}", t.id);
    }
}

#[test]
fn registers_that_lack_split_the_loads() {
    for t in gpus() {
        let room = LaunchOutline { load_regs: 40, min_blocks: 2, in_flight: 32, steps: 32, ..launch(&t, 4.0) };
        let tight = LaunchOutline { min_blocks: 16, ..room.clone() };
        assert!(residency(&tight, &t, None).batches > residency(&room, &t, None).batches, "{}", t.id);
    }
}

#[test]
fn what_the_compiler_says_replaces_guesses() {
    for t in gpus() {
        // Few bytes in flight, so that it takes many blocks to fill the DRAM.
        let few = LaunchOutline { in_flight: 8, steps: 128, ..launch(&t, 4.0) };
        let guess = Outline { launches: vec![few] };
        let with = |c: Compiled| compiled_ns(&guess, &t, &c);
        let base = with(Compiled { regs: 32, ..Compiled::default() });
        assert!((base - ns(&guess, &t)).abs() < 1e-6 * base, "{}", t.id);
        assert!(with(Compiled { regs: 255, ..Compiled::default() }) > base, "{}", t.id);
        assert!(with(Compiled { regs: 32, spill: 4096, ..Compiled::default() }) > base, "{}", t.id);
        let many = Compiled { regs: 32, loop_instructions: Some(20_000), ..Compiled::default() };
        assert!(with(many) > 2.0 * base, "{}", t.id);
    }
}

#[test]
fn arithmetic_bounds_where_there_is_much_of_it() {
    for t in gpus() {
        let base = launch(&t, 4.0);
        let much = LaunchOutline { flops: base.flops * 1000, ..base.clone() };
        let tensor = LaunchOutline { tensor_core: true, ..much.clone() };
        let [a, b, c] = [base, much, tensor].map(|l| time(&t, l));
        assert!(a < c && c < b, "{}: {a} {b} {c}", t.id);
    }
}

#[test]
fn a_cpu_wants_all_its_cores() {
    let t = Target::parse("cpu:x86-64-v3", &HostCpu::default()).unwrap();
    let base = launch(&gpus()[3], 1.0);
    let tasks = |blocks: i64| {
        let steps = (1 << 20) / blocks;
        time(&t, LaunchOutline { blocks, steps, threads: 1, load_regs: 4, read: 1 << 20, ..base.clone() })
    };
    assert!(tasks(8) < tasks(1) / 4.0 && tasks(8) < tasks(9));
}

#[test]
fn blocks_that_stage_what_they_share_start_late() {
    for t in gpus() {
        let own = launch(&t, 1.0);
        let staged = LaunchOutline { staged: true, shares: true, ..own.clone() };
        assert!(time(&t, staged) > time(&t, own) + 0.9 * latency_ns(&t), "{}", t.id);
    }
}

#[test]
fn a_latency_is_the_same_before_slower_dram() {
    for t in gpus() {
        let slower = t.clone().measured_as(0, 0, 0.7 * t.dram_gbps);
        let [a, b] = [&t, &slower].map(latency_ns);
        assert!((a - b).abs() < 1e-3 * a, "{}: {a} {b}", t.id);
    }
}

#[test]
fn only_what_adds_parts_waits_for_tiles() {
    let tiled = || LaunchOutline { tiles: Some(Tiles::default()), ..LaunchOutline::default() };
    let other = LaunchOutline::default;
    let after = |launches| after_tiles(&Outline { launches });
    assert_eq!(after(vec![other(), other(), tiled(), other()]), 1);
    assert_eq!(after(vec![other(), other()]), 0);
}
