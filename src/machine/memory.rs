//! Memory of this machine and of this process, from `/proc`.

/// Bytes of memory that are free to use; `None` where the system does not say.
pub fn free() -> Option<u64> {
    kib("/proc/meminfo", "MemAvailable:")
}

/// Bytes of a line `name 123 kB` of a file of `/proc`.
pub fn kib(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib << 10)
}
