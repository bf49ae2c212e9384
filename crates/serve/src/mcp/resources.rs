//! Resources, and subscriptions to them.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, PoisonError},
};

use kit::{Body, Kind};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ErrorCode, ListResourceTemplatesResult, ListResourcesResult, ReadResourceRequestParams,
        ReadResourceResponse, ReadResourceResult, Resource, ResourceTemplate,
    },
    service::RequestContext,
};
use serde_json::json;

use super::{
    McpServer, aside,
    exchange::Asked,
    list_changes::{WATCHED, send_updates},
    pages::page,
    refused,
};
use crate::{
    answer,
    backend::Backend,
    documents::{Content, Document, Pattern},
    message::echo,
};

/// Maximum length of an address.
const LONGEST: usize = 8 * 1024;

/// Maximum size of a document that is sent, in bytes.
const LARGEST: usize = 32 * 1024 * 1024;

impl<H: Backend> McpServer<H> {
    pub(super) async fn page_of_documents(
        &self,
        cursor: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let backend = Arc::clone(&self.backend);
        let documents = aside(move || backend.documents()).await?.map_err(|fault| refused(&fault))?;
        let all = self.view_resources(context).chain(documents.into_iter().map(resource)).collect();
        let (resources, next) = page("resources", all, |it: &Resource| &it.uri, cursor)?;
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = next;
        Ok(result)
    }

    pub(super) fn page_of_patterns(
        &self,
        cursor: Option<&str>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let all = self.backend.patterns().into_iter().map(template).collect();
        let (templates, next) =
            page("resource templates", all, |it: &ResourceTemplate| &it.uri_template, cursor)?;
        let mut result = ListResourceTemplatesResult::with_all_items(templates);
        result.next_cursor = next;
        Ok(result)
    }

    pub(super) async fn read_document(
        &self,
        request: ReadResourceRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        check(uri)?;
        let asked = Asked {
            method: "resources/read",
            params: json!(uri),
            responses: request.input_responses,
            state: request.request_state,
        };
        let (backend, address) = (Arc::clone(&self.backend), uri.clone());
        let read = move |client| async move { backend.read(&address, client).await };
        let contents =
            match self.run_rounds_of(asked, context, read).await.map_err(|error| with_uri(error, uri))? {
                Ok(contents) => contents,
                Err(asks) => return Ok((*asks).into()),
            };
        let size: usize = contents.iter().map(size).sum();
        if size > LARGEST {
            let what = format!("`{}` has {size} bytes; no more than {LARGEST} are sent at once", echo(uri));
            return Err(with_uri(ErrorData::internal_error(what, None), uri));
        }
        let contents = contents.iter().map(|it| answer::contents(&it.uri, it.mime.as_deref(), &it.body));
        Ok(ReadResourceResult::new(contents.collect()).into())
    }

    /// Notifies the client of changes of the document from now on.
    pub(super) async fn watch_document(
        &self,
        uri: String,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        check(&uri)?;
        let Some(changes) = self.backend.watch(&uri) else {
            // A document that never changes can be watched as well; one that does not exist can't.
            let backend = Arc::clone(&self.backend);
            let listed = aside(move || backend.documents()).await?.unwrap_or_default();
            if listed.iter().any(|it| it.uri == uri) {
                return Ok(());
            }
            let read = self.work(context, |client| self.backend.read(&uri, client)).await;
            return read.map(drop).map_err(|error| with_uri(error, &uri));
        };
        let mut watched = self.log_settings.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        let count = watched.len();
        let Entry::Vacant(vacant) = watched.entry(uri.clone()) else { return Ok(()) };
        if count >= WATCHED {
            let what = format!("{count} documents are watched already; unsubscribe from one of them first");
            return Err(ErrorData::invalid_request(what, None));
        }
        let over = vacant.insert(self.gone.child_token()).clone();
        send_updates(uri, changes, context.peer.clone(), over);
        Ok(())
    }

    /// Stops watching this document. It need not have been watched.
    pub(super) fn unwatch_document(&self, uri: &str) {
        let mut watched = self.log_settings.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(over) = watched.remove(uri) {
            over.cancel();
        }
    }
}

fn resource(document: Document) -> Resource {
    let mut resource = Resource::new(document.uri, document.name);
    resource.description = Some(document.description).filter(|it| !it.is_empty());
    resource.mime_type = document.mime;
    resource.size = document.bytes;
    resource
}

fn template(pattern: Pattern) -> ResourceTemplate {
    let mut template = ResourceTemplate::new(pattern.uri, pattern.name).with_description(pattern.description);
    template.mime_type = pattern.mime;
    template
}

fn check(uri: &str) -> Result<(), ErrorData> {
    if uri.len() > LONGEST {
        let what = format!("the uri has {} bytes; at most {LONGEST} are looked at", uri.len());
        return Err(ErrorData::invalid_params(what, None));
    }
    Ok(())
}

/// Adds the address to an error. A missing document has an error code of its own until 2025-11-25, which rmcp
/// replaces by that of wrong params for later revisions.
fn with_uri(mut error: ErrorData, uri: &str) -> ErrorData {
    // It names a missing client feature already.
    if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY {
        return error;
    }
    let is_missing = error.data.as_ref().is_some_and(|it| it["kind"] == Kind::NotFound.name());
    if is_missing {
        error.code = ErrorCode::RESOURCE_NOT_FOUND;
    }
    error.data = Some(json!({"uri": uri}));
    error
}

fn size(content: &Content) -> usize {
    match &content.body {
        Body::Text(text) => text.len(),
        Body::Bytes(bytes) => bytes.len(),
    }
}
