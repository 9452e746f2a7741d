//! The processor of this machine, from `/proc/cpuinfo` and sysfs.

use crate::target::HostCpu;
use std::path::Path;

/// Flags that make an x86-64 processor level 3, as `/proc/cpuinfo` names them.
const LEVEL_3: [&str; 7] = ["avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"];
/// Flags that level 4 adds.
const LEVEL_4: [&str; 5] = ["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];

/// Reads the machine. What cannot be read keeps the values of a plain processor.
pub fn read() -> HostCpu {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut host = HostCpu { cores, ..HostCpu::default() };
    host.arch = arch(std::env::consts::ARCH, &cpuinfo);
    if let Some(model) = field(&cpuinfo, "model name") {
        host.model = model.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    for cache in caches(Path::new("/sys/devices/system/cpu/cpu0/cache")) {
        match cache.level {
            1 => host.l1_bytes = cache.bytes,
            2 => host.l2_bytes = cache.bytes,
            _ => {}
        }
        host.llc_bytes = if cache.level >= 2 { cache.bytes } else { host.llc_bytes };
    }
    host
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|l| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// The architecture level of a processor.
fn arch(machine: &str, cpuinfo: &str) -> String {
    if machine != "x86_64" {
        return machine.to_string();
    }
    let flags: Vec<&str> = field(cpuinfo, "flags").unwrap_or_default().split_whitespace().collect();
    let has = |wanted: &[&str]| wanted.iter().all(|w| flags.contains(w));
    match (has(&LEVEL_3), has(&LEVEL_4)) {
        (true, true) => "x86-64-v4".into(),
        (true, false) => "x86-64-v3".into(),
        // Without /proc there are no flags to go by; nearly every machine is level 3.
        (false, _) if flags.is_empty() => "x86-64-v3".into(),
        (false, _) => "x86-64".into(),
    }
}

struct Cache {
    level: u32,
    bytes: u64,
}

/// Data and unified caches of one core, innermost first.
fn caches(folder: &Path) -> Vec<Cache> {
    let read = |index: u32, name: &str| {
        let text = std::fs::read_to_string(folder.join(format!("index{index}/{name}"))).ok()?;
        Some(text.trim().to_string())
    };
    let mut found: Vec<Cache> = (0..10)
        .filter(|i| read(*i, "type").is_some_and(|t| t != "Instruction"))
        .filter_map(|i| Some(Cache { level: read(i, "level")?.parse().ok()?, bytes: bytes(&read(i, "size")?)? }))
        .collect();
    found.sort_by_key(|c| c.level);
    found
}

/// `2048K` or `32M` in bytes.
fn bytes(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let scale = match unit {
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        _ => 1,
    };
    text.trim_end_matches(['K', 'M', 'G']).parse::<u64>().ok().map(|n| n * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_follow_from_flags() {
        let v3 = format!("processor\t: 0\nflags\t\t: fpu {}\n", LEVEL_3.join(" "));
        let v4 = format!("flags : {} {}\n", LEVEL_3.join(" "), LEVEL_4.join(" "));
        assert_eq!(arch("x86_64", &v3), "x86-64-v3");
        assert_eq!(arch("x86_64", &v4), "x86-64-v4");
        assert_eq!(arch("x86_64", "flags : fpu sse2\n"), "x86-64");
        assert_eq!(arch("aarch64", &v4), "aarch64");
    }

    #[test]
    fn cache_sizes_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let rows =
            [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("3", "Unified", "32M"), ("2", "Unified", "2048K")];
        for (i, (level, kind, size)) in rows.iter().enumerate() {
            let folder = dir.path().join(format!("index{i}"));
            std::fs::create_dir(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        let sizes: Vec<(u32, u64)> = caches(dir.path()).iter().map(|c| (c.level, c.bytes)).collect();
        assert_eq!(sizes, [(1, 48 << 10), (2, 2 << 20), (3, 32 << 20)]);
    }
}
