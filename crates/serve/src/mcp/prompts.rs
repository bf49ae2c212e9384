//! Prompts: list, and expansion with arguments.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult, Prompt,
        PromptArgument, PromptMessage, Role,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{McpServer, aside, exchange::Asked, pages::page, revision};
use crate::{
    answer,
    backend::Backend,
    documents::{self, Blank, Line, Speaker},
    message::echo,
};

/// Maximum number of arguments.
const ARGUMENTS: usize = 100;

/// Maximum length of all arguments together.
const LONGEST: usize = 1024 * 1024;

impl<H: Backend> McpServer<H> {
    pub(super) async fn page_of_prompts(&self, cursor: Option<&str>) -> Result<ListPromptsResult, ErrorData> {
        let backend = Arc::clone(&self.backend);
        let all = aside(move || backend.prompts()).await?.into_iter().map(prompt).collect();
        let (prompts, next) = page("prompts", all, |it: &Prompt| &it.name, cursor)?;
        let mut result = ListPromptsResult::with_all_items(prompts);
        result.next_cursor = next;
        Ok(result)
    }

    pub(super) async fn fill_prompt(
        &self,
        request: GetPromptRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let count = given.len();
        let arguments: Vec<(String, String)> = given.into_iter().map(argument).collect::<Result<_, _>>()?;
        let bytes: usize = arguments.iter().map(|(name, value)| name.len() + value.len()).sum();
        if count > ARGUMENTS || bytes > LONGEST {
            let what = format!(
                "{count} arguments of {bytes} bytes are too many; at most {ARGUMENTS} of {LONGEST} bytes are taken"
            );
            return Err(ErrorData::invalid_params(what, None));
        }
        let name = request.name;
        let asked = Asked {
            method: "prompts/get",
            params: json!([name, arguments]),
            responses: request.input_responses,
            state: request.request_state,
        };
        let backend = Arc::clone(&self.backend);
        let filled = move |client| async move { backend.prompt(&name, arguments, client).await };
        match self.run_rounds_of(asked, context, filled).await? {
            Ok(lines) => {
                let revision = revision(context);
                let lines = lines.iter().map(|line| message(line, &revision)).collect();
                Ok(GetPromptResult::new(lines).into())
            }
            Err(asks) => Ok((*asks).into()),
        }
    }
}

fn argument((name, value): (String, Value)) -> Result<(String, String), ErrorData> {
    match value {
        Value::String(value) => Ok((name, value)),
        _ => {
            let what = format!("the argument `{}` must be a string", echo(&name));
            Err(ErrorData::invalid_params(what, None))
        }
    }
}

fn prompt(prompt: documents::Prompt) -> Prompt {
    let arguments: Vec<PromptArgument> = prompt.arguments.into_iter().map(blank).collect();
    let arguments = Some(arguments).filter(|it| !it.is_empty());
    Prompt::new(prompt.name, Some(prompt.description), arguments)
}

fn blank(blank: Blank) -> PromptArgument {
    PromptArgument::new(blank.name).with_description(blank.description).with_required(blank.required)
}

fn message(line: &Line, revision: &str) -> PromptMessage {
    let role = match line.by {
        Speaker::Person => Role::User,
        Speaker::Model => Role::Assistant,
    };
    PromptMessage::new(role, answer::as_of(revision, answer::block(&line.part)))
}
