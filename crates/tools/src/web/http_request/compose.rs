//! Composing a request from arguments.

use std::{collections::BTreeMap, path::Path};

use kit::{
    net::{
        Body, Form, Method, Request, Url,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    prelude::*,
};
use serde_json::Value;

use super::{FormPart, HttpRequest, SILENCE, secrets::Secrets};

/// Builds the request, with secrets in place of their names.
///
/// # Errors
/// [`Kind::BadArgs`] for an invalid method, address, header or body; those of the vault and of files.
pub(super) async fn request(asked: &HttpRequest, cx: &Cx) -> Result<Request, Fault> {
    let (mut url, _) = asked.place()?;
    let secrets = Secrets::at(cx, &url)?;
    let name = asked.method_name();
    let method = Method::from_bytes(name.as_bytes()).map_err(|_| {
        Fault::bad_args(format!("`{name}` is not a method")).next("Such as GET, POST, PUT, PATCH or DELETE.")
    })?;
    let mut hidden = secrets.fill_url(&mut url)?;
    let mut written = asked.url.trim().to_owned();
    for (name, value) in texts("query", &asked.query)? {
        let (filled, any) = secrets.fill(&value)?;
        written.push_str(&format!("{}{name}={value}", if written.contains('?') { '&' } else { '?' }));
        hidden |= any;
        url.query_pairs_mut().append_pair(&name, &filled);
    }
    let mut headers = headers(&asked.headers, &secrets)?;
    let body = body(asked, cx, &secrets, &mut headers).await?;
    if asked.save_to.is_some() {
        headers.entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    }
    Ok(Request {
        named: hidden.then_some(written),
        headers,
        body,
        redirects: asked.redirects.unwrap_or(10),
        within: asked.within(),
        silence: SILENCE.min(asked.within()),
        as_sent: asked.save_to.is_some(),
        ..Request::new(method, url)
    })
}

/// Maximum number of headers; servers accept no more.
const MOST_HEADERS: usize = 200;

fn headers(asked: &BTreeMap<String, String>, secrets: &Secrets<'_>) -> Result<HeaderMap, Fault> {
    let mut headers = HeaderMap::new();
    if asked.len() > MOST_HEADERS {
        return Err(Fault::bad_args(format!("{} headers were given", asked.len()))
            .next(format!("A request has {MOST_HEADERS} of them at most; `body` sends what is longer.")));
    }
    for (name, value) in asked {
        let wrong = |what: String| {
            Fault::bad_args(what).next("A header is one line, and its name is letters, digits and `-`.")
        };
        let key = HeaderName::from_bytes(name.trim().as_bytes())
            .map_err(|_| wrong(format!("`{name}` is not the name of a header")))?;
        let (filled, is_secret) = secrets.fill_header(value)?;
        let mut filled = HeaderValue::from_str(filled.trim()).map_err(|_| {
            wrong(format!("the value of the header `{name}` has a line break or a control character in it"))
        })?;
        filled.set_sensitive(is_secret);
        headers.try_append(key, filled).or_fault(Kind::BadArgs, "too many headers")?;
    }
    Ok(headers)
}

/// Returns the body, if any, and adds its media type to the headers unless they have one.
async fn body(
    asked: &HttpRequest,
    cx: &Cx,
    secrets: &Secrets<'_>,
    headers: &mut HeaderMap,
) -> Result<Option<Body>, Fault> {
    let given = [
        ("body", asked.body.is_some()),
        ("json", asked.json.is_some()),
        ("form", asked.form.is_some()),
        ("multipart", asked.multipart.is_some()),
        ("upload", asked.upload.is_some()),
    ];
    let given: Vec<String> =
        given.into_iter().filter(|(_, is)| *is).map(|(name, _)| format!("`{name}`")).collect();
    if given.len() > 1 {
        return Err(Fault::bad_args(format!("one thing can be sent, not {}", given.join(" and ")))
            .next("`multipart` sends texts and files in one form."));
    }
    let (media_type, body) = if let Some(text) = &asked.body {
        let (text, any) = secrets.fill(text)?;
        ("text/plain; charset=utf-8".to_owned(), Body::from(text).sensitive(any))
    } else if let Some(json) = &asked.json {
        let mut json = json.clone();
        let any = secrets.fill_all(&mut json)?;
        ("application/json".to_owned(), Body::from(json.to_string()).sensitive(any))
    } else if let Some(form) = &asked.form {
        let (mut pairs, mut any) = (Vec::new(), false);
        for (name, value) in texts("form", form)? {
            let (value, has_one) = secrets.fill(&value)?;
            pairs.push((name, value));
            any |= has_one;
        }
        ("application/x-www-form-urlencoded".to_owned(), Body::from(urlencoded(&pairs)?).sensitive(any))
    } else if let Some(parts) = &asked.multipart {
        let mut form = Form::default();
        for part in parts {
            form = add(form, part, cx, secrets).await?;
        }
        form.finish()
    } else if let Some(path) = &asked.upload {
        ("application/octet-stream".to_owned(), file(path, cx).await?)
    } else {
        return Ok(None);
    };
    let media_type = HeaderValue::from_str(&media_type).or_fault(Kind::BadArgs, "not a media type")?;
    if asked.multipart.is_some() {
        // Only this function knows its boundary.
        headers.insert(header::CONTENT_TYPE, media_type);
    } else {
        headers.entry(header::CONTENT_TYPE).or_insert(media_type);
    }
    Ok(Some(body))
}

async fn add(form: Form, part: &FormPart, cx: &Cx, secrets: &Secrets<'_>) -> Result<Form, Fault> {
    let FormPart { name, value, path, filename, content_type } = part;
    match (value, path) {
        (Some(value), None) => {
            let (value, any) = secrets.fill(value)?;
            let value = Body::from(value).sensitive(any);
            Ok(form.part(name, filename.as_deref(), content_type.as_deref(), value))
        }
        (None, Some(path)) => {
            let own = Path::new(path).file_name().map(|it| it.to_string_lossy().into_owned());
            let filename = filename.clone().or(own);
            let content_type = content_type.as_deref().unwrap_or("application/octet-stream");
            Ok(form.part(name, filename.as_deref(), Some(content_type), file(path, cx).await?))
        }
        (Some(_), Some(_)) | (None, None) => Err(Fault::bad_args(format!(
            "the part `{name}` of `multipart` needs `value` or `path`, and one of them"
        ))),
    }
}

async fn file(path: &str, cx: &Cx) -> Result<Body, Fault> {
    let path = path.to_owned();
    cx.blocking(move |cx| Body::of_file(&cx.files().open(&path)?)).await
}

/// Returns names and texts, in the order of the names; a list repeats its name.
fn texts(field: &str, map: &BTreeMap<String, Value>) -> Result<Vec<(String, String)>, Fault> {
    let text = |name: &str, value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        Value::Null => Ok(String::new()),
        Value::Array(_) | Value::Object(_) => {
            Err(Fault::bad_args(format!("`{name}` in `{field}` is neither a text nor a list of texts")))
        }
    };
    let mut texts = Vec::new();
    for (name, value) in map {
        match value {
            Value::Array(values) => {
                for value in values {
                    texts.push((name.clone(), text(name, value)?));
                }
            }
            value => texts.push((name.clone(), text(name, value)?)),
        }
    }
    Ok(texts)
}

fn urlencoded(pairs: &[(String, String)]) -> Result<String, Fault> {
    let mut url = Url::parse("http://form/").or_fault(Kind::Bug, "an address")?;
    url.query_pairs_mut().extend_pairs(pairs);
    Ok(url.query().unwrap_or_default().to_owned())
}
