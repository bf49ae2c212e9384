//! Secrets in requests: inserted when it is sent, never shown to the model.

use kit::{
    base64,
    net::{Url, host_of},
    prelude::*,
};
use serde_json::Value;

const OPEN: &str = "{{secret:";
const CLOSE: &str = "}}";

/// Inserts secrets in place of their names, for one host.
pub(super) struct Secrets<'a> {
    cx: &'a Cx,
    host: String,
    port: u16,
    in_clear: bool,
}

impl<'a> Secrets<'a> {
    /// Creates it for a request to this address.
    ///
    /// # Errors
    /// When it has no host.
    pub(super) fn at(cx: &'a Cx, url: &Url) -> Result<Self, Fault> {
        let (host, port) = host_of(url)?;
        Ok(Self { cx, host, port, in_clear: url.scheme() == "http" })
    }

    /// Returns the text with the values, and whether there were any.
    ///
    /// # Errors
    /// When the secret does not exist, is not available, or is not configured for this host.
    pub(super) fn fill(&self, text: &str) -> Result<(String, bool), Fault> {
        self.fill_as(text, str::to_owned)
    }

    /// Like [`fill`](Self::fill), with an encoding of each value.
    pub(super) fn fill_as(
        &self,
        text: &str,
        write: impl Fn(&str) -> String,
    ) -> Result<(String, bool), Fault> {
        let mut filled = String::with_capacity(text.len());
        let (mut rest, mut any) = (text, false);
        while let Some((before, after)) = rest.split_once(OPEN) {
            let Some((name, after)) = after.split_once(CLOSE) else { break };
            filled.push_str(before);
            filled.push_str(&write(&self.reveal(name.trim())?));
            (rest, any) = (after, true);
        }
        filled.push_str(rest);
        Ok((filled, any))
    }

    /// Inserts secrets in every text of a value; returns whether there were any.
    pub(super) fn fill_all(&self, value: &mut Value) -> Result<bool, Fault> {
        let mut any = false;
        match value {
            Value::String(text) => (*text, any) = self.fill(text)?,
            Value::Array(values) => {
                for it in values {
                    any |= self.fill_all(it)?;
                }
            }
            Value::Object(fields) => {
                for it in fields.values_mut() {
                    any |= self.fill_all(it)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(any)
    }

    /// Inserts secrets in a header. `Basic NAME:{{secret:…}}` is base64-encoded, as no model can encode a
    /// value that it does not see.
    pub(super) fn fill_header(&self, text: &str) -> Result<(String, bool), Fault> {
        let (filled, any) = self.fill(text)?;
        match filled.split_once(' ') {
            Some((scheme, plain)) if any && scheme.eq_ignore_ascii_case("basic") && plain.contains(':') => {
                Ok((format!("{scheme} {}", base64::encoded(plain.trim().as_bytes())), true))
            }
            _ => Ok((filled, any)),
        }
    }

    /// Inserts secrets in the path and the query of an address; returns whether there were any.
    pub(super) fn fill_url(&self, url: &mut Url) -> Result<bool, Fault> {
        let path = url.path().replace("%7B%7Bsecret:", OPEN).replace("%7D%7D", CLOSE);
        let (path, in_path) = self.fill_as(&path, escaped)?;
        if in_path {
            url.set_path(&path);
        }
        let query = url.query().unwrap_or_default().replace("%7B%7Bsecret:", OPEN).replace("%7D%7D", CLOSE);
        let (query, in_query) = self.fill_as(&query, escaped)?;
        if in_query {
            url.set_query(Some(&query));
        }
        Ok(in_path || in_query)
    }

    fn reveal(&self, name: &str) -> Result<String, Fault> {
        let vault = self.cx.vault();
        let value = vault.reveal(name, &self.host, self.port)?;
        if self.in_clear && !vault.may_go_in_clear(name, &self.host, self.port) {
            let place = format!("{}:{}", self.host, self.port);
            return Err(Fault::denied(format!(
                "the secret `{name}` is not sent over http, where everybody on the way can read it"
            ))
            .next(format!(
                "Use https. If there is none, a person can put `{place}` into `hosts` of `[secret.{name}]`."
            )));
        }
        Ok(value)
    }
}

fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
