//! Samples and states of the device as short lists.
//!
//! `[2, 13709, -12, 30]` are 13709, 13697 and 13739 hundreds of nanoseconds: a power of ten, the first sample, and what
//! the others differ from it by. Nothing is lost: only what comes back to the same bits is packed.

use super::{DeviceState, Setting};

/// The samples as integers; `None` where some of them would not come back as they are.
pub(super) fn pack(samples: &[f64]) -> Option<Vec<i64>> {
    let parts: Vec<(i64, i32)> = samples.iter().map(|s| decimal(*s)).collect::<Option<_>>()?;
    let Some(power) = parts.iter().map(|(_, power)| *power).min() else { return Some(vec![]) };
    let scaled = |(digits, own): &(i64, i32)| digits.checked_mul(10_i64.checked_pow(u32::try_from(own - power).ok()?)?);
    let units: Vec<i64> = parts.iter().map(scaled).collect::<Option<_>>()?;
    let mut out = vec![i64::from(power), units[0]];
    out.extend(units[1..].iter().map(|n| n - units[0]));
    let same = |back: Vec<f64>| back.iter().map(|x| x.to_bits()).eq(samples.iter().map(|x| x.to_bits()));
    unpack(&out).is_some_and(same).then_some(out)
}

/// The samples of what [`pack`] gave; `None` for anything else.
pub(super) fn unpack(packed: &[i64]) -> Option<Vec<f64>> {
    let [power, first, rest @ ..] = packed else { return None };
    let offsets = [0].into_iter().chain(rest.iter().copied());
    let one =
        |offset: i64| format!("{}e{power}", first.checked_add(offset)?).parse().ok().filter(|x: &f64| x.is_finite());
    offsets.map(one).collect()
}

/// What the device was doing: both clocks and the temperature, other processes and repeats unless there are none of both,
/// and what held the clocks down.
pub(super) fn state(s: DeviceState) -> Vec<Setting> {
    let always = [s.sm_mhz, s.mem_mhz, s.temperature_c];
    let disturbed = [s.processes, s.repeats];
    let disturbed: &[u32] = if disturbed == [0, 0] { &[] } else { &disturbed };
    let numbers = always.iter().chain(disturbed).map(|n| Setting::from(i64::from(*n)));
    numbers.chain(s.throttle.into_iter().map(Setting::Name)).collect()
}

/// The state of what [`state`] gave; `None` for anything else.
pub(super) fn device(packed: &[Setting]) -> Option<DeviceState> {
    let numbers: Vec<u32> =
        packed.iter().map_while(Setting::number).map(u32::try_from).collect::<Result<_, _>>().ok()?;
    let (processes, repeats) = match numbers[..] {
        [_, _, _] => (0, 0),
        [_, _, _, processes, repeats] => (processes, repeats),
        _ => return None,
    };
    let reason = |s: &Setting| match s {
        Setting::Name(name) => Some(name.clone()),
        Setting::Number(_) => None,
    };
    let throttle = packed[numbers.len()..].iter().map(reason).collect::<Option<_>>()?;
    Some(DeviceState {
        sm_mhz: numbers[0],
        mem_mhz: numbers[1],
        temperature_c: numbers[2],
        throttle,
        processes,
        repeats,
    })
}

/// Digits without zeros behind, and the power of ten that they are times: nine digits of a number above 0.
fn decimal(x: f64) -> Option<(i64, i32)> {
    let text = format!("{x:.8e}");
    let (digits, power) = text.split_once('e')?;
    let (mut digits, mut power) = (digits.replace('.', "").parse::<i64>().ok()?, power.parse::<i32>().ok()? - 8);
    while digits != 0 && digits % 10 == 0 {
        (digits, power) = (digits / 10, power + 1);
    }
    (digits > 0).then_some((digits, power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn states_come_back_and_others_are_none() {
        let calm = DeviceState { sm_mhz: 1980, mem_mhz: 3201, temperature_c: 41, ..DeviceState::default() };
        let capped = DeviceState { throttle: vec!["sw_power_cap".into()], ..calm.clone() };
        let shared = DeviceState { processes: 2, ..capped.clone() };
        for (s, length) in [(calm, 3), (capped, 4), (shared, 6)] {
            let short = state(s.clone());
            assert_eq!((short.len(), device(&short)), (length, Some(s)));
        }
        let names = |list: &[&str]| list.iter().map(|n| Setting::from(*n)).collect::<Vec<_>>();
        assert_eq!(device(&names(&["a", "b", "c"])), None);
        assert_eq!(device(&[1, 2, 3, 4].map(Setting::from)), None);
        assert_eq!(device(&[1, 2, -3].map(Setting::from)), None);
    }

    #[test]
    fn a_power_of_ten_the_first_and_what_others_differ_by() {
        assert_eq!(pack(&[1_370_900.0, 1_369_700.0, 1_373_900.0]), Some(vec![2, 13709, -12, 30]));
        assert_eq!(pack(&[3399.5, 3400.0]), Some(vec![-1, 33995, 5]));
        assert_eq!((pack(&[]), pack(&[7e6])), (Some(vec![]), Some(vec![6, 7])));
    }

    #[test]
    fn what_would_change_is_not_packed() {
        for samples in
            [&[1.0 / 3.0][..], &[0.0], &[-1.0], &[f64::NAN], &[f64::INFINITY], &[1e300, 1e-300], &[5.0, -0.0]]
        {
            assert_eq!(pack(samples), None, "{samples:?}");
        }
    }

    #[test]
    fn anything_else_is_no_list_of_samples() {
        for bad in [&[][..], &[3], &[400, 1], &[0, i64::MAX, 1], &[i64::MAX, 1]] {
            assert_eq!(unpack(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn samples_come_back_to_the_bit(digits in prop::collection::vec(1_i64..1_000_000_000, 0..20), power in -9_i32..9) {
            let samples: Vec<f64> = digits.iter().map(|d| format!("{d}e{power}").parse().expect("a number")).collect();
            let packed = pack(&samples).expect("nine digits");
            prop_assert!(samples.is_empty() || unpack(&packed).as_ref() == Some(&samples));
        }
    }
}
