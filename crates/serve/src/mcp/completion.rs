//! Completion of arguments of prompts and resource templates.

use std::sync::Arc;

use rmcp::{
    ErrorData,
    model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference},
};

use super::{McpServer, aside};
use crate::{backend::Backend, documents::Subject, message::echo};

/// Maximum length of a text that is completed.
const LONGEST: usize = 4 * 1024;

impl<H: Backend> McpServer<H> {
    pub(super) async fn completed(
        &self,
        request: CompleteRequestParams,
    ) -> Result<CompleteResult, ErrorData> {
        let subject = match request.r#ref {
            Reference::Prompt(prompt) => Subject::Prompt(prompt.name),
            Reference::Resource(template) => Subject::Documents(template.uri),
            other => {
                let what = format!("nothing of a `{}` is completed", other.reference_type());
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        let (argument, begun) = (request.argument.name, request.argument.value);
        if begun.len() > LONGEST {
            let what = format!("the value has {} bytes; at most {LONGEST} are completed", begun.len());
            return Err(ErrorData::invalid_params(what, None));
        }
        let backend = Arc::clone(&self.backend);
        let values = aside(move || {
            let is_known = match &subject {
                Subject::Prompt(name) => backend.prompts().iter().any(|it| it.name == *name),
                Subject::Documents(uri) => backend.patterns().iter().any(|it| it.uri == *uri),
            };
            if is_known { Ok(backend.complete(&subject, &argument, &begun)) } else { Err(unknown(&subject)) }
        });
        let mut values = values.await??;
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let mut completion = CompletionInfo::default();
        completion.has_more = Some(total > values.len());
        completion.total = u32::try_from(total).ok();
        completion.values = values;
        Ok(CompleteResult::new(completion))
    }
}

fn unknown(subject: &Subject) -> ErrorData {
    let what = match subject {
        Subject::Prompt(name) => format!("there is no prompt `{}`; `prompts/list` names them", echo(name)),
        Subject::Documents(uri) => {
            format!("there is no template `{}`; `resources/templates/list` names them", echo(uri))
        }
    };
    ErrorData::invalid_params(what, None)
}
