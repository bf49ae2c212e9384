//! Webhooks: checks signed requests against the triggers of this workspace, and fires them.

use std::sync::Arc;

use kit::{
    Fault, Kind,
    services::{Soon, Vault},
};
use runtime::{Runtime, WEBHOOK_HOST};
use serve::{Accepted, Delivery, Hooks};
use store::{Fired, TriggerRow, TriggerState};
use triggers::{
    Delivered, Service, Spec, What,
    webhook::{Signed, has_headers, verified},
};

/// The webhooks of a workspace.
pub(crate) struct Webhooks {
    service: Service,
    runtime: Runtime,
    vault: Arc<dyn Vault>,
}

impl Webhooks {
    pub(crate) fn new(runtime: &Runtime) -> Self {
        Self {
            service: Service::new(runtime.store().clone()),
            vault: runtime.vault(),
            runtime: runtime.clone(),
        }
    }

    /// Returns the webhook of a request. Whether a session or a trigger exists is not told apart.
    async fn find(&self, delivery: &Delivery) -> Result<(TriggerRow, Spec), Fault> {
        let none = || Fault::not_found("there is no such webhook");
        let found = self.service.find(Some(&delivery.session), &delivery.trigger).await;
        let row = found.map_err(|fault| if fault.kind == Kind::NotFound { none() } else { fault })?;
        let spec = Spec::of_body(&row.body)?;
        match spec.what {
            What::Webhook { .. } if row.state != TriggerState::Done => Ok((row, spec)),
            _ => Err(none()),
        }
    }

    async fn deliver(&self, delivery: Delivery) -> Result<Accepted, Fault> {
        let (row, spec) = self.find(&delivery).await?;
        let What::Webhook { scheme, secret, window_seconds } = &spec.what else {
            return Err(Fault::bug("this trigger is no webhook"));
        };
        let secret = match secret {
            Some(name) => self.vault.reveal(name, WEBHOOK_HOST, 0)?,
            None => {
                let (rows, session, id) =
                    (self.runtime.store().triggers(), row.session.clone(), row.id.clone());
                let kept = tokio::task::spawn_blocking(move || rows.secret(&session, &id)).await;
                let kept =
                    kept.map_err(|error| Fault::bug(format!("the secret was not read: {error}")))??;
                kept.ok_or_else(|| Fault::new(Kind::Unavailable, "this webhook has no secret"))?
            }
        };
        let header = |name: &str| delivery.header(name);
        let request = Signed { header: &header, body: &delivery.body };
        let id = verified(*scheme, &secret, request, store::now_ms() / 1_000, *window_seconds)?;
        let event = delivery.header("x-github-event");
        let fired = self.service.deliver(&row, &spec, Delivered { id, event, body: &delivery.body }).await?;
        match fired {
            Fired::Yes { .. } => Ok(Accepted::Fires),
            Fired::Known => Ok(Accepted::Before),
            Fired::No(_) => Ok(Accepted::HeldBack),
            Fired::Lost | Fired::Gone => Err(Fault::not_found("there is no such webhook")),
        }
    }
}

impl Hooks for Webhooks {
    fn look(&self, delivery: Delivery) -> Soon<'_, Result<(), Fault>> {
        Box::pin(async move {
            let (_, spec) = self.find(&delivery).await?;
            let What::Webhook { scheme, .. } = spec.what else { return Ok(()) };
            has_headers(scheme, &|name| delivery.header(name))
        })
    }

    fn take(&self, delivery: Delivery) -> Soon<'_, Result<Accepted, Fault>> {
        Box::pin(self.deliver(delivery))
    }
}
