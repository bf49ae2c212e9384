//! MCP Apps: views that a host shows beside a call, for hosts that announce the extension.

use rmcp::{
    RoleServer,
    model::{
        CallToolResponse, ClientCapabilities, MetaObject, ReadResourceResult, Resource, ResourceContents,
        Tool,
    },
    service::RequestContext,
};
use runtime::Answer;
use serde_json::{Map, Value, json};

use super::McpServer;
use crate::{answer, backend::Backend, documents::View, message::echo};

/// The name of the extension.
const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The media type of a view.
const MIME: &str = "text/html;profile=mcp-app";

/// The prefix of a view's address.
const ADDRESS: &str = "ui://";

/// The data for a view, in the `_meta` of a result: the model does not see it.
const DATA: &str = "haft/view";

/// Returns whether the client of this request announces that it shows views.
fn shows_views(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().as_ref().is_some_and(announces)
}

fn announces(capabilities: &ClientCapabilities) -> bool {
    let settings = capabilities.extensions.as_ref().and_then(|it| it.get(EXTENSION));
    let types = settings.and_then(|it| it.get("mimeTypes")).and_then(Value::as_array);
    types.is_some_and(|it| it.iter().any(|one| one == MIME))
}

fn meta(name: &str, value: Value) -> MetaObject {
    MetaObject(Map::from_iter([(name.to_owned(), value)]))
}

impl<H: Backend> McpServer<H> {
    /// Returns the views for the client of this request; none, if it shows none.
    fn views(&self, context: &RequestContext<RoleServer>) -> Vec<View> {
        if shows_views(context) { self.backend.views() } else { Vec::new() }
    }

    /// Names the view of each tool that has one, and adds the tools that only views call: hosts keep these from the model.
    pub(super) fn link_views(&self, tools: &mut Vec<Tool>, context: &RequestContext<RoleServer>) {
        let views = self.views(context);
        for spec in views.iter().flat_map(|it| &it.calls) {
            if tools.iter().all(|it| it.name != spec.name) {
                let mut tool = answer::tool(spec);
                tool.meta = Some(meta("ui", json!({"visibility": ["app"]})));
                tools.push(tool);
            }
        }
        for tool in tools.iter_mut().filter(|it| it.meta.is_none()) {
            if let Some(view) = views.iter().find(|it| it.tools.iter().any(|name| *name == tool.name)) {
                tool.meta = Some(meta("ui", json!({"resourceUri": view.uri})));
            }
        }
    }

    /// The views, as resources.
    pub(super) fn view_resources(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> impl Iterator<Item = Resource> {
        self.views(context).into_iter().map(|view| {
            let mut resource = Resource::new(view.uri, view.name).with_description(view.description);
            resource.mime_type = Some(MIME.to_owned());
            resource.size = u64::try_from(view.html.len()).ok();
            resource
        })
    }

    /// Returns the view at this address, if it is one that the client can show.
    pub(super) fn read_view(
        &self,
        uri: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<ReadResourceResult> {
        let view =
            uri.starts_with(ADDRESS).then(|| self.views(context))?.into_iter().find(|it| it.uri == uri)?;
        tracing::debug!(view = %echo(uri), "a view is read");
        let contents = ResourceContents::TextResourceContents {
            uri: view.uri,
            mime_type: Some(MIME.to_owned()),
            text: view.html.to_string(),
            // It asks for nothing from elsewhere, and for no permission of the browser.
            meta: Some(meta("ui", json!({"csp": {}, "prefersBorder": true}))),
        };
        Some(ReadResourceResult::new(vec![contents]))
    }

    /// Adds the data for the view of this tool to a result.
    pub(super) async fn add_view_data(
        &self,
        response: CallToolResponse,
        tool: &str,
        answer: &Answer,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let CallToolResponse::Complete(mut result) = response else { return response };
        if shows_views(context)
            && let Some(data) = self.backend.view_data(tool, answer).await
        {
            result.meta.get_or_insert_with(|| MetaObject(Map::new())).0.insert(DATA.to_owned(), data);
        }
        result.into()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn only_a_host_that_shows_html_views_announces_them() {
        for (extensions, expected) in [
            (json!({"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}), true),
            (json!({"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html", "x/y"]}}), false),
            (json!({"io.modelcontextprotocol/ui": {}}), false),
            (json!({"io.modelcontextprotocol/tasks": {}}), false),
        ] {
            let capabilities = serde_json::from_value(json!({"extensions": extensions})).unwrap();
            assert_eq!(announces(&capabilities), expected, "{extensions}");
        }
        assert!(!announces(&ClientCapabilities::default()));
    }
}
