//! The tracing span of each request.

use kit::spans;
use rmcp::{ErrorData, model::RequestId};
use tracing::Instrument as _;

/// Answers a request of this method and id within its span. `target` is the name of the tool, prompt or resource.
pub(super) async fn traced<T>(
    method: &str,
    target: Option<&str>,
    id: &RequestId,
    answer: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    let span = spans::McpRequest::served(method, target, id);
    let answered = answer.instrument(span.span()).await;
    span.ended(answered.as_ref().err().map(|error| error.code.0));
    answered
}
