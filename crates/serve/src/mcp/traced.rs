//! The tracing span of each request.

use kit::spans;
use rmcp::{ErrorData, model::RequestId};
use tracing::Instrument as _;

/// Answers a request of this method and id within its span. `target` is the name of the tool, prompt or resource.
///
/// The work is boxed here: the layers of rmcp above move the future of each request several times, and the work of a tool call
/// is large.
pub(super) fn traced<'w, T>(
    method: &str,
    target: Option<&str>,
    id: &RequestId,
    answer: impl Future<Output = Result<T, ErrorData>> + Send + 'w,
) -> impl Future<Output = Result<T, ErrorData>> + Send + 'w {
    let span = spans::McpRequest::served(method, target, id);
    let answer = Box::pin(answer).instrument(span.span());
    async move {
        let answered = answer.await;
        span.ended(answered.as_ref().err().map(|error| error.code.0));
        answered
    }
}
