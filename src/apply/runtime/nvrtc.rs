
    /// Compiles text on this machine, which had no compiler when the text was made.
    fn compile(text: &str, architecture: &'static str) -> Result<CString, Error> {
        let options = cudarc::nvrtc::CompileOptions { arch: Some(architecture), ..Default::default() };
        let ptx = cudarc::nvrtc::compile_ptx_with_opts(text, options).map_err(|e| Error::Compile(format!("{e:?}")))?;
        CString::new(ptx.to_src()).map_err(|_| Error::Compile("the compiler's output holds a zero".into()))
    }
