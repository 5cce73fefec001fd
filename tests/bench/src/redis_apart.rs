//! A processor of its own for Redis.
//!
//! In production Redis has a machine of its own. Here it shares one with its clients. Without this, the scheduler's choice of
//! processors would decide more than the designs do.

#[cfg(not(target_os = "linux"))]
pub use elsewhere::RedisApart;
#[cfg(target_os = "linux")]
pub use on_linux::RedisApart;

#[cfg(target_os = "linux")]
mod on_linux {
    use rustix::process::Pid;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use crate::BoxError;
    use crate::heat::info;

    /// A split of the processors: one for Redis, the others for the threads that this one starts.
    pub struct RedisApart {
        all: CpuSet,
        for_redis: CpuSet,
    }

    impl RedisApart {
        /// Begins the split. `None` if there is only one processor.
        pub fn begin() -> Result<Option<Self>, BoxError> {
            let all = sched_getaffinity(None)?;
            let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| all.is_set(*cpu)).filter(|_| all.count() > 1) else {
                return Ok(None);
            };
            let (mut for_redis, mut for_clients) = (CpuSet::new(), all);
            for_redis.set(last);
            for_clients.unset(last);
            sched_setaffinity(None, &for_clients)?;
            Ok(Some(Self { all, for_redis }))
        }

        /// Moves a Redis to its processor.
        pub fn take_there(&self, redis: &redis::Client) -> Result<(), BoxError> {
            let process = info(redis, "process_id")?;
            for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let id = thread?.file_name().to_string_lossy().parse()?;
                sched_setaffinity(Pid::from_raw(id), &self.for_redis)?;
            }
            Ok(())
        }

        /// Ends the split: this thread, and those that it starts from now on, may use all processors.
        pub fn end(self) -> Result<(), BoxError> {
            Ok(sched_setaffinity(None, &self.all)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::BoxError;

    /// Processors are not split on this system.
    pub enum RedisApart {}

    impl RedisApart {
        /// Begins no split.
        pub const fn begin() -> Result<Option<Self>, BoxError> {
            Ok(None)
        }

        /// Cannot be called.
        pub const fn take_there(&self, _: &redis::Client) -> Result<(), BoxError> {
            match *self {}
        }

        /// Cannot be called.
        pub const fn end(self) -> Result<(), BoxError> {
            match self {}
        }
    }
}
