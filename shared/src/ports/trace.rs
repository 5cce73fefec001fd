use tokio::task::futures::TaskLocalFuture;

use crate::domain::TraceId;

tokio::task_local! {
    static TRACE: Option<TraceId>;
}

/// Does `work` on behalf of a request of this trace. What it commits itself names the trace, for the events. Tasks that it spawns don't.
pub fn traced<F: Future>(trace: Option<TraceId>, work: F) -> TaskLocalFuture<Option<TraceId>, F> {
    TRACE.scope(trace, work)
}

/// The trace of the request on whose behalf this task works, if it has one.
#[must_use]
pub fn current_trace() -> Option<TraceId> {
    TRACE.try_with(|trace| *trace).ok().flatten()
}
