
    /// The threads of rayon: of the pool that the caller runs in, or else of the global one.
    #[derive(Clone, Copy, Debug)]
    pub struct Rayon;

    impl Pool for Rayon {
        fn threads(&self) -> usize {
            rayon::current_num_threads()
        }

        fn run(&self, work: &(dyn Fn() + Sync)) {
            rayon::scope(|scope| {
                for _ in 1..self.threads() {
                    scope.spawn(move |_| work());
                }
                work();
            });
        }
    }

    impl Pool for &rayon::ThreadPool {
        fn threads(&self) -> usize {
            self.current_num_threads()
        }

        fn run(&self, work: &(dyn Fn() + Sync)) {
            self.install(|| Rayon.run(work));
        }
    }
