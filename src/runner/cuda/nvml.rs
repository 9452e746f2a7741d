//! What the driver's management library (NVML) says of a device: clocks, temperature, throttling,
//! processes. It is loaded at run time; where it is absent or refuses, nothing is known, which is no
//! error.

use crate::runner::DeviceState;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::{Device, Nvml};
use std::ffi::OsStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Names of the library: the one that drivers install, and the one of development packages.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];
/// What changes slowly is asked for no more often than this: an answer may cost a millisecond.
const SLOW: Duration = Duration::from_millis(250);

/// Why clocks are held down, by the names in the log. An idle GPU or clocks that somebody set are no
/// reason to distrust a time.
const REASONS: [(ThrottleReasons, &str); 5] = [
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake"),
];

/// Watches one device.
pub struct Monitor {
    device: Device<'static>,
    /// Processes on the device that belong to the caller.
    own: u32,
    slow: Option<(Instant, Slow)>,
}

/// What changes slowly.
#[derive(Clone, Copy)]
struct Slow {
    mem_mhz: u32,
    temperature_c: u32,
    processes: u32,
}

impl Monitor {
    /// Watches the device at a PCI address, which the CUDA driver names too; numbers of devices differ
    /// between the two. `own`: how many of the processes on it are the caller's.
    ///
    /// # Errors
    /// A sentence, where NVML is missing or does not know the device.
    pub fn open(bus_id: &str, own: u32) -> Result<Monitor, String> {
        let nvml = library()?;
        let device = nvml.device_by_pci_bus_id(bus_id);
        let device = device.map_err(|e| format!("NVML does not know the device at {bus_id}: {e}"))?;
        Ok(Monitor { device, own, slow: None })
    }

    /// The state now; `None` where the device does not tell its clock.
    pub fn state(&mut self) -> Option<DeviceState> {
        let sm_mhz = self.device.clock_info(Clock::SM).ok()?;
        let reasons = self.device.current_throttle_reasons().unwrap_or(ThrottleReasons::NONE);
        let Slow { mem_mhz, temperature_c, processes } = self.slow();
        Some(DeviceState { sm_mhz, mem_mhz, temperature_c, throttle: names(reasons), processes, repeats: 0 })
    }

    fn slow(&mut self) -> Slow {
        if let Some((read, slow)) = self.slow
            && read.elapsed() < SLOW
        {
            return slow;
        }
        // Containers may hide processes; then there is nothing to count.
        let processes = self.device.running_compute_processes_count().unwrap_or(0);
        let slow = Slow {
            mem_mhz: self.device.clock_info(Clock::Memory).unwrap_or(0),
            temperature_c: self.device.temperature(TemperatureSensor::Gpu).unwrap_or(0),
            processes: processes.saturating_sub(self.own),
        };
        self.slow = Some((Instant::now(), slow));
        slow
    }
}

/// The library, loaded once and until the process ends, as the driver is.
fn library() -> Result<&'static Nvml, String> {
    static LIBRARY: OnceLock<Result<Nvml, String>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().map_err(String::clone)
}

fn load() -> Result<Nvml, String> {
    let load = |name: &str| Nvml::builder().lib_path(OsStr::new(name)).init();
    let [installed, development] = LIBRARIES;
    load(installed).or_else(|e| load(development).map_err(|_| e)).map_err(|e| {
        format!("NVML was not found, so that clocks are not watched; the NVIDIA driver brings {installed} ({e})")
    })
}

fn names(reasons: ThrottleReasons) -> Vec<String> {
    REASONS.iter().filter(|(r, _)| reasons.contains(*r)).map(|(_, name)| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_slows_has_a_name() {
        let harmless = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        assert_eq!(names(harmless), Vec::<String>::new());
        let slow = harmless | ThrottleReasons::HW_THERMAL_SLOWDOWN | ThrottleReasons::SW_POWER_CAP;
        assert_eq!(names(slow), ["sw_power_cap", "hw_thermal"]);
    }

    #[test]
    fn an_absent_library_or_device_is_a_sentence() {
        let why = Monitor::open("ffff:ff:1f.7", 0).err();
        assert!(why.is_some_and(|w| w.starts_with("NVML ")));
    }
}
