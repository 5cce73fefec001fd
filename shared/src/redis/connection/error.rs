use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use redis::{ErrorKind, ParsingError, ServerErrorKind};
use thiserror::Error;

/// What is wrong with a [`RedisConfig`](super::RedisConfig).
#[derive(Debug, Error)]
pub enum RedisConfigError {
    /// A URL, or a combination of them, is not valid.
    #[error("the hot store's URL is not valid")]
    Url {
        /// Why, without the URL.
        #[source]
        source: redis::RedisError,
    },
    /// Several URLs were given for what is no cluster.
    #[error("several URLs make sense for a cluster only")]
    SeveralUrls,
    /// The file of certificate authorities cannot be read.
    #[error("cannot read the certificate authorities in {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What should be certificates in PEM form is none.
    #[error("the certificate authorities are not valid")]
    Authorities {
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Why a call of the hot store has no result.
#[derive(Clone, Debug, Error)]
pub enum RedisError {
    /// No server could be reached, or none that can serve now. It is unknown whether the call was executed.
    #[error("the hot store at {at} is unavailable")]
    Unavailable {
        /// The addresses of the configuration.
        at: Arc<str>,
        /// The last failure.
        #[source]
        source: redis::RedisError,
    },
    /// The server refused the password, or wants one. That passes once the password is the same in both places.
    #[error("the hot store at {at} refuses the password: look at {login}")]
    Password {
        /// The addresses of the configuration.
        at: Arc<str>,
        /// Where the password is.
        login: Arc<str>,
        /// The server's answer, without the password.
        #[source]
        source: redis::RedisError,
    },
    /// The server does not let its user do this. That passes once the user has the right.
    #[error("the hot store at {at} refuses the call: look at the rights of its user")]
    Rights {
        /// The addresses of the configuration.
        at: Arc<str>,
        /// The server's answer.
        #[source]
        source: redis::RedisError,
    },
    /// The server answered with an error: a defect of a script or of the configuration.
    #[error("the hot store at {at} refused the call")]
    Refused {
        /// The addresses of the configuration.
        at: Arc<str>,
        /// The server's answer.
        #[source]
        source: redis::RedisError,
    },
    /// The configuration says that the server is a cluster, and it is none.
    #[error("the hot store at {at} is no cluster: leave out --redis-cluster, or set REDIS_CLUSTER=false")]
    NoCluster {
        /// The addresses of the configuration.
        at: Arc<str>,
    },
    /// The server is a cluster, and the configuration says that it is none.
    #[error("the hot store at {at} is a cluster: add --redis-cluster, or set REDIS_CLUSTER=true")]
    IsCluster {
        /// The addresses of the configuration.
        at: Arc<str>,
    },
    /// The call was executed, and its answer has another shape than was asked for: a defect.
    #[error("the hot store's answer was not understood")]
    Unexpected {
        /// What was wrong with it.
        #[source]
        source: ParsingError,
    },
}

impl RedisError {
    /// What became of a call to the hot store at these addresses. `login`: where the password is.
    pub(super) fn of(source: redis::RedisError, at: Arc<str>, login: &Arc<str>, cluster: bool) -> Self {
        match Failure::of(&source, cluster) {
            Failure::Broken | Failure::Unfit | Failure::Busy => Self::Unavailable { at, source },
            Failure::Password => Self::Password { at, login: Arc::clone(login), source },
            Failure::Rights => Self::Rights { at, source },
            Failure::Refused if cluster && source.detail() == Some(NO_CLUSTER) => Self::NoCluster { at },
            Failure::Refused if source.kind() == ErrorKind::Server(ServerErrorKind::Moved) => Self::IsCluster { at },
            Failure::Refused => Self::Refused { at, source },
        }
    }

    /// What became of a call to a hot store in memory.
    #[cfg(any(test, feature = "memory"))]
    pub(crate) fn in_memory(source: redis::RedisError) -> Self {
        Self::of(source, Arc::from("memory"), &Arc::from("memory"), false)
    }

    /// Whether it passes by itself, or once an operator has acted. The same call may be repeated then.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Password { .. } | Self::Rights { .. })
    }

    /// Whether a key has a value of another type than the call needs.
    #[must_use]
    pub fn is_wrong_type(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.code() == Some("WRONGTYPE"))
    }
}

/// What a failure says about the connection that it came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Failure {
    /// The connection is broken or mute.
    Broken,
    /// The server answered that it is not the right one now: it is no primary any more, or does not have all of its data.
    Unfit,
    /// The right server answered that it cannot serve for a moment.
    Busy,
    /// The server refused the password, or the connection has not signed in.
    Password,
    /// The server answered that its user may not do this.
    Rights,
    /// The server answered, and will answer the same again.
    Refused,
}

/// What the texts of errors with the code `ERR` say, by their beginnings.
const TEXTS: [(&str, Failure); 5] = [
    // While `ElastiCache` Serverless scales, it answers so for a moment.
    ("internal error", Failure::Unfit),
    ("Script attempted to access a non local key in a cluster node", Failure::Unfit),
    // What a server with `maxclients` connections answers a new one.
    ("max number of clients reached", Failure::Busy),
    // A script's command that its user may not run. The second is that of Redis 6.
    ("ACL failure in script", Failure::Rights),
    ("The user executing the script can't", Failure::Rights),
];
/// What a server that is no node of a cluster answers to CLUSTER SLOTS.
const NO_CLUSTER: &str = "This instance has cluster support disabled";

impl Failure {
    pub(super) fn of(error: &redis::RedisError, cluster: bool) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => return Self::Password,
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => return Self::Broken,
            _ => {}
        }
        match error.code().unwrap_or_default() {
            "READONLY" | "MASTERDOWN" | "CLUSTERDOWN" | "LOADING" => Self::Unfit,
            // Redirections are followed; one that is left over means that the nodes do not agree yet.
            "MOVED" | "ASK" if cluster => Self::Unfit,
            // In this order: a slot is on its way, and the call was tried again meanwhile. Another caller's script is over its time
            // limit. The disk refuses a snapshot or the append-only file. Too few replicas follow. The memory is full until keys expire.
            "TRYAGAIN" | "BUSY" | "MISCONF" | "NOREPLICAS" | "OOM" => Self::Busy,
            "NOAUTH" | "WRONGPASS" => Self::Password,
            "NOPERM" => Self::Rights,
            "ERR" => Self::of_text(error.detail().unwrap_or_default()),
            // Such as `WRONGTYPE` and `CROSSSLOT`. A `NOSCRIPT` does not come here: the call is sent again with its script.
            _ => Self::Refused,
        }
    }

    /// What an error with the code `ERR` says.
    fn of_text(text: &str) -> Self {
        let known = TEXTS.iter().find(|(beginning, _)| text.starts_with(beginning));
        known.map_or(Self::Refused, |(_, failure)| *failure)
    }
}

#[cfg(test)]
mod tests {
    use Failure::{Broken, Busy, Password, Refused, Rights, Unfit};

    use super::*;

    fn answered(line: &str) -> redis::RedisError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            redis::Value::ServerError(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_says_whether_connection_or_server_is_unfit() {
        for (line, failure) in [
            ("READONLY You can't write against a read only replica.", Unfit),
            ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Unfit),
            ("CLUSTERDOWN Hash slot not served", Unfit),
            ("LOADING Redis is loading the dataset in memory", Unfit),
            ("ERR internal error", Unfit),
            (
                "ERR Script attempted to access a non local key in a cluster node script: 2f3c, on @user_script:1.",
                Unfit,
            ),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Busy),
            ("BUSY Redis is busy running a script.", Busy),
            ("MISCONF Errors writing to the AOF file: No space left on device", Busy),
            ("NOREPLICAS Not enough good replicas to write.", Busy),
            ("OOM command not allowed when used memory > 'maxmemory'.", Busy),
            ("ERR max number of clients reached", Busy),
            ("NOAUTH Authentication required.", Password),
            ("WRONGPASS invalid username-password pair or user is disabled.", Password),
            ("NOPERM User default has no permissions to run the 'eval' command", Rights),
            ("ERR ACL failure in script: User x has no permissions to run the 'set' command", Rights),
            ("ERR The user executing the script can't run this command or subcommand", Rights),
            ("NOSCRIPT No matching script.", Refused),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Refused),
            ("CROSSSLOT Keys in request don't hash to the same slot", Refused),
            ("ERR Script attempted to access keys that do not hash to the same slot", Refused),
            ("ERR unknown command 'TIME'", Refused),
            ("MINE own", Refused),
        ] {
            for cluster in [false, true] {
                let error = answered(line);
                assert_eq!(Failure::of(&error, cluster), failure, "{line}, cluster: {cluster}");
                let error = RedisError::of(error, Arc::from("a"), &Arc::from("b"), cluster);
                assert_eq!(error.is_passing(), failure != Refused, "{line}");
            }
        }
        for line in ["MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381"] {
            assert_eq!(Failure::of(&answered(line), true), Unfit);
            assert_eq!(Failure::of(&answered(line), false), Refused, "the configuration says: no cluster");
        }
        assert_eq!(Failure::of(&io::Error::from(io::ErrorKind::TimedOut).into(), false), Broken);
        assert_eq!(Failure::of(&(ErrorKind::AuthenticationFailed, "no").into(), false), Password);
    }
}
