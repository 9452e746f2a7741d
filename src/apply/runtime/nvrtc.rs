
    /// Of the compiler: those that kernels were measured with.
    const OPTIONS: [&str; @COUNT@] = @OPTIONS@;

    /// What was compiled in this program, by text and architecture: each once, however often it is loaded.
    static COMPILED: std::sync::Mutex<std::collections::BTreeMap<(&str, &str), Arc<[u8]>>> =
        std::sync::Mutex::new(std::collections::BTreeMap::new());

    /// Compiles text on this machine: there was no compiler where the text was made.
    fn compile(text: &'static str, architecture: &'static str) -> Result<Arc<[u8]>, Error> {
        let mut compiled = COMPILED.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = compiled.get(&(text, architecture)) {
            return Ok(known.clone());
        }
        // `cudarc` panics where there is no NVRTC.
        let made = std::panic::catch_unwind(|| cubin(text, architecture));
        let none = || Err(Error::Compile("there is no NVRTC (libnvrtc) to compile kernels with on this machine".into()));
        let made: Arc<[u8]> = made.unwrap_or_else(|_| none())?.into();
        compiled.insert((text, architecture), made.clone());
        Ok(made)
    }

    fn cubin(text: &str, architecture: &str) -> Result<Vec<u8>, Error> {
        use cudarc::nvrtc::{result, sys};
        let failed = |why: &dyn std::fmt::Debug| Error::Compile(format!("NVRTC: {why:?}"));
        let text = CString::new(text).map_err(|e| failed(&e))?;
        let mut options = vec![format!("--gpu-architecture={architecture}")];
        options.extend(OPTIONS.map(String::from));
        let program = result::create_program(&text, None).map_err(|e| failed(&e))?;
        // SAFETY: the program was just made, and the bytes are as many as NVRTC says.
        let made = unsafe {
            result::compile_program(program, &options).and_then(|()| {
                let mut size = 0;
                sys::nvrtcGetCUBINSize(program, &mut size).result()?;
                let mut cubin = vec![0u8; size];
                sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()).result().map(|_| cubin)
            })
        };
        let made = made.map_err(|e| {
            // SAFETY: as above.
            let log = unsafe { result::get_program_log(program) }.unwrap_or_default();
            let log: Vec<u8> = log.iter().map(|c| *c as u8).filter(|c| *c != 0).collect();
            Error::Compile(format!("NVRTC: {e:?}: {}", String::from_utf8_lossy(&log).trim()))
        });
        // SAFETY: nothing uses the program any more.
        let _ = unsafe { result::destroy_program(program) };
        made
    }
