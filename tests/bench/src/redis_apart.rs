//! A processor of its own for Redis.
//!
//! In production it has a machine of its own. Here it shares one with its clients, and whether the scheduler puts the two beside
//! each other or in each other's way would decide more than what is compared.

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

    /// One processor is for Redis, the others are for all threads that this one starts.
    pub struct RedisApart {
        all: CpuSet,
        for_redis: CpuSet,
    }

    impl RedisApart {
        /// From now on; `None` where there is but one processor.
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

        /// Gives its processor to this Redis.
        pub fn take_there(&self, redis: &redis::Client) -> Result<(), BoxError> {
            let process = info(redis, "process_id")?;
            for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let id = thread?.file_name().to_string_lossy().parse()?;
                sched_setaffinity(Pid::from_raw(id), &self.for_redis)?;
            }
            Ok(())
        }

        /// All processors are for this thread again, and for those that it starts from now on.
        pub fn end(self) -> Result<(), BoxError> {
            Ok(sched_setaffinity(None, &self.all)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use crate::BoxError;

    /// Nobody has a processor of his own here.
    pub enum RedisApart {}

    impl RedisApart {
        /// Never.
        pub const fn begin() -> Result<Option<Self>, BoxError> {
            Ok(None)
        }

        /// Never.
        pub const fn take_there(&self, _: &redis::Client) -> Result<(), BoxError> {
            match *self {}
        }

        /// Never.
        pub const fn end(self) -> Result<(), BoxError> {
            match self {}
        }
    }
}
