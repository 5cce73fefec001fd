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

/// Errors that pass by themselves, or once an operator has acted. Another caller's script is over its time limit. The disk refuses a
/// snapshot or the append-only file. Too few replicas follow. The memory is full until keys expire.
const PASSING: [&str; 4] = ["BUSY", "MISCONF", "NOREPLICAS", "OOM"];
/// What a server with `maxclients` connections answers a new one.
const TOO_MANY_CLIENTS: &str = "max number of clients reached";
/// The codes of a server to which nobody has signed in, and that refuses a password.
const PASSWORD: [&str; 2] = ["NOAUTH", "WRONGPASS"];
/// How a server begins that refuses a script's command to its user. The second is that of Redis 6.
const SCRIPT_RIGHTS: [&str; 2] = ["ACL failure in script", "The user executing the script can't"];
/// What a server that is no node of a cluster answers to CLUSTER SLOTS.
const NO_CLUSTER: &str = "This instance has cluster support disabled";

impl Failure {
    pub(super) fn of(error: &redis::RedisError, cluster: bool) -> Self {
        use ServerErrorKind::{
            Ask, BusyLoading, ClusterDown, MasterDown, Moved, NoPerm, ReadOnly, ResponseError, TryAgain,
        };
        let has_code = |codes: &[&str]| error.code().is_some_and(|code| codes.contains(&code));
        let begins =
            |texts: &[&str]| error.detail().is_some_and(|detail| texts.iter().any(|text| detail.starts_with(text)));
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Password,
            ErrorKind::Extension if has_code(&PASSWORD) => Self::Password,
            ErrorKind::Server(NoPerm) => Self::Rights,
            ErrorKind::Server(ResponseError) if begins(&SCRIPT_RIGHTS) => Self::Rights,
            ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => Self::Broken,
            ErrorKind::Server(ReadOnly | ClusterDown | MasterDown | BusyLoading) => Self::Unfit,
            // Redirections are followed; one that is left over means that the nodes do not agree yet.
            ErrorKind::Server(Moved | Ask) if cluster => Self::Unfit,
            // A slot on its way: the call was tried again meanwhile.
            ErrorKind::Server(TryAgain) => Self::Busy,
            ErrorKind::Extension if has_code(&PASSING) => Self::Busy,
            ErrorKind::Server(ResponseError) if error.detail() == Some(TOO_MANY_CLIENTS) => Self::Busy,
            _ => Self::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn a_failure_says_whether_connection_or_server_is_unfit() {
        let server = |kind| redis::RedisError::from((ErrorKind::Server(kind), "no"));
        let extension = |code: &str| make_extension_error(code.to_owned(), None);
        for (error, expected) in [
            (io::Error::from(io::ErrorKind::TimedOut).into(), Failure::Broken),
            (server(ServerErrorKind::ReadOnly), Failure::Unfit),
            (server(ServerErrorKind::ClusterDown), Failure::Unfit),
            (server(ServerErrorKind::MasterDown), Failure::Unfit),
            (server(ServerErrorKind::BusyLoading), Failure::Unfit),
            (server(ServerErrorKind::TryAgain), Failure::Busy),
            (extension("BUSY"), Failure::Busy),
            (extension("OOM"), Failure::Busy),
            (extension("MISCONF"), Failure::Busy),
            (extension("NOREPLICAS"), Failure::Busy),
            (extension("NOAUTH"), Failure::Password),
            (extension("WRONGPASS"), Failure::Password),
            ((ErrorKind::AuthenticationFailed, "no").into(), Failure::Password),
            (server(ServerErrorKind::NoPerm), Failure::Rights),
            (extension("WRONGTYPE"), Failure::Refused),
            (server(ServerErrorKind::CrossSlot), Failure::Refused),
            (server(ServerErrorKind::ResponseError), Failure::Refused),
        ] {
            assert_eq!(Failure::of(&error, false), expected, "{error}");
            assert_eq!(Failure::of(&error, true), expected, "{error}");
        }
        assert_eq!(Failure::of(&server(ServerErrorKind::Moved), true), Failure::Unfit);
        assert_eq!(
            Failure::of(&server(ServerErrorKind::Moved), false),
            Failure::Refused,
            "the configuration says that it is no cluster"
        );
    }
}
