//! Messages of a session: its private channels, the shared ones of its group, and the agents that it can send to.

use kit::{
    Fault, Kind,
    services::{
        ChannelInfo, ChannelRequest, Delivery, Kin, Messages, OtherAgent, Outgoing, OwnIdentity, Soon,
        Undelivered,
    },
};
use serde_json::{Value, json};
use store::{
    NewMessage, Refused, Source, Store,
    channels::{Channel, ChannelKind, ChannelMessage, Direction, Member, NewPost, NotSent, Scope},
    message_id,
};

/// The prefix of the keys of an environment's shared state.
const STATE: &str = "state ";

/// The messages of one session.
pub(crate) struct MessagesOf {
    store: Store,
    session: String,
    /// The name of its agent, where another agent started it.
    agent: Option<String>,
}

impl MessagesOf {
    pub(crate) fn new(store: Store, session: &str, agent: Option<&str>) -> Self {
        Self { store, session: session.to_owned(), agent: agent.map(str::to_owned) }
    }

    fn member(&self) -> Result<Option<Member>, Fault> {
        self.store.channels().member(&self.session)
    }

    /// Returns the environment of its group, or one of its own.
    fn environment(&self) -> Result<String, Fault> {
        let group = self.member()?.map(|it| it.environment).filter(|it| !it.is_empty());
        Ok(group.unwrap_or_else(|| format!("env_{}", self.session)))
    }

    fn scope(&self, shared: bool) -> Result<Scope, Fault> {
        Ok(if shared {
            Scope::Environment(self.environment()?)
        } else {
            Scope::Session(self.session.clone())
        })
    }

    /// Returns the session that started this one, where one did.
    fn parent(&self) -> Option<&str> {
        self.agent.as_ref()?;
        self.session.rsplit_once('/').map(|(parent, _)| parent)
    }

    /// Returns whether the session needs an edge to send to this scope: in a group it does.
    fn needs_edge(&self, scope: &Scope) -> Result<bool, Fault> {
        let in_group = self.member()?.is_some_and(|it| !it.environment.is_empty());
        Ok(in_group && matches!(scope, Scope::Environment(_)))
    }

    fn display_name(&self) -> Result<String, Fault> {
        Ok(self.own()?.name)
    }

    async fn post(
        &self,
        scope: Scope,
        sender: Option<String>,
        message: Outgoing,
    ) -> Result<Result<Delivery, Undelivered>, Fault> {
        let needs_edge = self.needs_edge(&scope)?;
        let metadata = if message.metadata.is_null() { json!({}) } else { message.metadata };
        let sender = match sender {
            Some(sender) => sender,
            None => self.display_name()?,
        };
        let channel = message.channel.clone();
        let sent = self.store.channels().send(NewPost {
            scope,
            channel: message.channel,
            sender,
            sender_session: Some(self.session.clone()),
            content: message.content,
            metadata,
            reply_to: message.reply_to,
            key: None,
            needs_edge,
        });
        Ok(match sent.await? {
            Ok(sent) => Ok(Delivery { message_id: sent.message_id }),
            Err(NotSent::Unknown) => Err(Undelivered::Unknown),
            Err(NotSent::NotWired) => Err(Undelivered::NotWired),
            Err(NotSent::QueueFull) => Err(Undelivered::Full(channel)),
            Err(NotSent::InboxFull(session)) => Err(Undelivered::Full(session)),
        })
    }

    async fn answer(&self, request: ChannelRequest) -> Result<Value, Fault> {
        let channels = self.store.channels();
        Ok(match request {
            ChannelRequest::Environment => json!(self.environment()?),
            ChannelRequest::Get { key } => {
                let kept = self.store.sessions().get(&self.state_owner()?, &format!("{STATE}{key}"))?;
                kept.and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or(Value::Null)
            }
            ChannelRequest::Register { key, value } => {
                let text = self.store.stamp().secrets.mask(&value.to_string()).into_owned();
                let bytes = text.into_bytes();
                self.store.sessions().put(self.state_owner()?, format!("{STATE}{key}"), bytes)?;
                Value::Null
            }
            ChannelRequest::List { shared } => {
                json!(channels.list(&self.scope(shared)?)?.iter().map(described).collect::<Vec<_>>())
            }
            ChannelRequest::Create { shared, name, kind, capacity, description } => {
                let (scope, kind) = (self.scope(shared)?, kind_of(&kind));
                if shared && self.needs_edge(&scope)? && channels.get(&scope, &name)?.is_none() {
                    let what = format!("the group has no channel `{name}`, and a tool file can't create one");
                    return Err(Fault::denied(what));
                }
                channels.create(&scope, &name, kind, capacity, &description).await?;
                json!(channels.get(&scope, &name)?.as_ref().map(described))
            }
            ChannelRequest::Remove { shared, name } => {
                let scope = self.scope(shared)?;
                if self.needs_edge(&scope)? {
                    return Err(Fault::denied("a tool file can't remove a channel of a group"));
                }
                json!(channels.remove(&scope, &name).await?)
            }
            ChannelRequest::Send { shared, name, sender, content, metadata, reply_to } => {
                let message =
                    Outgoing { channel: name.clone(), content, metadata, reply_to, shared_only: shared };
                match self.post(self.scope(shared)?, sender, message).await? {
                    Ok(sent) => json!(sent.message_id),
                    Err(Undelivered::Full(at)) if at == name => Value::Null,
                    Err(refused) => return Err(fault_of(&name, &refused)),
                }
            }
            ChannelRequest::History { shared, name } => {
                let history = channels.history(&self.scope(shared)?, &name, store::channels::HISTORY)?;
                json!(history.iter().map(sent).collect::<Vec<_>>())
            }
            ChannelRequest::Receive { shared, name, reader } => {
                let scope = self.scope(shared)?;
                let found = match reader {
                    Some(reader) => channels.next(&scope, &name, &reader).await?,
                    None => channels.receive(&scope, &name, &self.session).await?,
                };
                json!(found.as_ref().map(sent))
            }
            ChannelRequest::Subscribe { shared, name, reader, end } => {
                let scope = self.scope(shared)?;
                if end {
                    channels.unsubscribe(&scope, &name, &reader).await?;
                    return Ok(json!(true));
                }
                if channels.get(&scope, &name)?.is_none() {
                    return Err(fault_of(&name, &Undelivered::Unknown));
                }
                json!(channels.subscribe(&scope, &name, &reader).await?)
            }
        })
    }

    fn state_owner(&self) -> Result<String, Fault> {
        Ok(format!("environment {}", self.environment()?))
    }
}

impl Messages for MessagesOf {
    fn own(&self) -> Result<OwnIdentity, Fault> {
        let member = self.member()?;
        let name = || self.agent.clone().unwrap_or_else(|| self.session.clone());
        Ok(match member {
            Some(it) if !it.environment.is_empty() => OwnIdentity {
                id: it.id,
                name: it.name,
                environment: Some(it.environment),
                privileged: it.privileged,
            },
            _ => OwnIdentity { id: self.session.clone(), name: name(), environment: None, privileged: true },
        })
    }

    fn others(&self) -> Result<Vec<OtherAgent>, Fault> {
        let channels = self.store.channels();
        let of = |it: Member, kin: Kin| OtherAgent {
            session: it.session,
            id: it.id,
            name: it.name,
            kin,
            privileged: it.privileged,
            running: it.running,
        };
        let mut others: Vec<OtherAgent> = Vec::new();
        if let Some(parent) = self.parent() {
            others.push(OtherAgent {
                session: parent.to_owned(),
                id: parent.to_owned(),
                name: "parent".to_owned(),
                kin: Kin::Parent,
                privileged: true,
                running: true,
            });
        }
        others.extend(channels.agents_of(&self.session)?.into_iter().map(|it| of(it, Kin::Child)));
        if let Some(group) = self.member()?.map(|it| it.environment).filter(|it| !it.is_empty()) {
            others.extend(channels.members(&group)?.into_iter().map(|it| of(it, Kin::Member)));
        }
        Ok(others)
    }

    fn channels(&self) -> Result<Vec<ChannelInfo>, Fault> {
        let channels = self.store.channels();
        let mut found = Vec::new();
        for shared in [true, false] {
            let scope = self.scope(shared)?;
            let edges = channels.edges(&scope)?;
            let needs_edge = self.needs_edge(&scope)?;
            let is_wired = |channel: &str| {
                edges.iter().any(|it| {
                    it.channel == channel && it.session == self.session && it.direction == Direction::Send
                })
            };
            found.extend(channels.list(&scope)?.into_iter().map(|it| ChannelInfo {
                may_send: !needs_edge || is_wired(&it.name),
                name: it.name,
                kind: it.kind.name(),
                description: it.description,
                shared,
            }));
        }
        Ok(found)
    }

    fn send(&self, message: Outgoing) -> Soon<'_, Result<Result<Delivery, Undelivered>, Fault>> {
        Box::pin(async move {
            let shared = self.post(self.scope(true)?, None, message.clone()).await?;
            if shared != Err(Undelivered::Unknown) || message.shared_only {
                return Ok(shared);
            }
            self.post(self.scope(false)?, None, message).await
        })
    }

    fn send_direct(
        &self,
        to: OtherAgent,
        text: String,
    ) -> Soon<'_, Result<Result<String, Undelivered>, Fault>> {
        Box::pin(async move {
            // A name means something to those who can send to it: to its children an agent is `parent`.
            let sender = if to.kin == Kin::Child { "parent".to_owned() } else { self.display_name()? };
            let message = NewMessage {
                sender_session: Some(self.session.clone()),
                message: Some(message_id("direct")),
                ..NewMessage::new(&to.session, Source::Direct, sender, text)
            };
            // The agent above runs as long as this one does.
            let posted = if to.kin == Kin::Parent {
                Ok(self.store.inbox().post(message).await?)
            } else {
                self.store.inbox().post_to_member(message).await?
            };
            Ok(match posted {
                Ok(posted) => Ok(posted.message),
                Err(Refused::Unknown) => Err(Undelivered::Unknown),
                Err(Refused::Stopped) => Err(Undelivered::Stopped),
                Err(Refused::Full(session)) => Err(Undelivered::Full(session)),
            })
        })
    }

    fn request(&self, request: ChannelRequest) -> Soon<'_, Result<Value, Fault>> {
        Box::pin(self.answer(request))
    }
}

fn kind_of(name: &str) -> ChannelKind {
    if name == "broadcast" { ChannelKind::Broadcast } else { ChannelKind::Queue }
}

fn fault_of(channel: &str, refused: &Undelivered) -> Fault {
    match refused {
        Undelivered::Unknown => Fault::not_found(format!("there is no channel `{channel}`")),
        Undelivered::NotWired => {
            Fault::denied(format!("this session is not wired as a sender on channel `{channel}`"))
        }
        Undelivered::Stopped => Fault::new(Kind::Unavailable, format!("`{channel}` does not run")),
        Undelivered::Full(what) => {
            Fault::new(Kind::Unavailable, format!("`{what}` has no room for more messages"))
        }
    }
}

/// Returns a channel as a tool file gets it.
fn described(channel: &Channel) -> Value {
    json!({
        "name": channel.name,
        "type": channel.kind.name(),
        "description": channel.description,
        "maxsize": channel.capacity,
        "qsize": channel.waiting,
    })
}

/// Returns a message as a tool file gets it.
fn sent(message: &ChannelMessage) -> Value {
    json!({
        "sender": message.sender,
        "content": message.content,
        "metadata": message.metadata,
        "at_ms": message.at_ms,
        "message_id": message.message_id,
        "reply_to": message.reply_to,
        "channel": message.channel,
        "sender_id": message.sender_id,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::{path::Path, sync::Arc};

    use kit::redact::Secrets;

    use super::*;

    fn open(folder: &Path) -> Store {
        Store::open(folder, Path::new("/nowhere/w"), Arc::new(Secrets::none()))
    }

    fn member(session: &str, environment: &str, parent: Option<&str>) -> Member {
        Member {
            session: session.to_owned(),
            environment: environment.to_owned(),
            id: format!("{session}_id"),
            name: session.rsplit('/').next().unwrap().to_owned(),
            parent: parent.map(str::to_owned),
            privileged: false,
            running: true,
        }
    }

    #[tokio::test]
    async fn agents_and_their_parents_reach_each_other_as_long_as_they_run() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let above = MessagesOf::new(store.clone(), "s", None);
        let below = MessagesOf::new(store.clone(), "s/explore_1", Some("explore_1"));
        assert_eq!(above.others().unwrap(), []);
        store.channels().join(member("s/explore_1", "", Some("s"))).await.unwrap();
        let child = above.others().unwrap().pop().unwrap();
        assert_eq!((child.name.as_str(), child.kin), ("explore_1", Kin::Child));
        assert!(above.send_direct(child.clone(), "go on".to_owned()).await.unwrap().is_ok());
        let parent = below.others().unwrap().pop().unwrap();
        assert_eq!((parent.name.as_str(), parent.session.as_str()), ("parent", "s"));
        assert!(below.send_direct(parent, "found it".to_owned()).await.unwrap().is_ok());
        let got = |session: &str| {
            let queued = store.inbox().queued(session).unwrap();
            queued.into_iter().map(|it| (it.sender, it.text)).collect::<Vec<_>>()
        };
        assert_eq!(got("s/explore_1"), [("parent".to_owned(), "go on".to_owned())]);
        assert_eq!(got("s"), [("explore_1".to_owned(), "found it".to_owned())]);
        store.channels().leave("s/explore_1").await.unwrap();
        assert_eq!(above.send_direct(child, "late".to_owned()).await.unwrap(), Err(Undelivered::Unknown));
    }

    #[tokio::test]
    async fn shared_channel_needs_an_edge_and_goes_before_a_private_one_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        let channels = store.channels();
        let messages = MessagesOf::new(store.clone(), "a", None);
        let (shared, private) = (Scope::Environment("env_1".to_owned()), Scope::Session("a".to_owned()));
        channels.join(member("a", "env_1", None)).await.unwrap();
        channels.create(&private, "c", ChannelKind::Queue, 0, "").await.unwrap();
        let message = || Outgoing { channel: "c".to_owned(), content: json!("x"), ..Outgoing::default() };
        assert!(messages.send(message()).await.unwrap().is_ok());
        assert_eq!(channels.get(&private, "c").unwrap().unwrap().waiting, 1);
        channels.create(&shared, "c", ChannelKind::Broadcast, 0, "").await.unwrap();
        assert_eq!(messages.send(message()).await.unwrap(), Err(Undelivered::NotWired));
        channels.wire(&shared, "c", "a", Direction::Send).await.unwrap();
        assert!(messages.send(message()).await.unwrap().is_ok());
        assert_eq!(channels.get(&private, "c").unwrap().unwrap().waiting, 1);
        let only = Outgoing { shared_only: true, channel: "absent".to_owned(), ..message() };
        assert_eq!(messages.send(only).await.unwrap(), Err(Undelivered::Unknown));
        let listed = messages.channels().unwrap();
        assert_eq!(
            listed.iter().map(|it| (it.shared, it.kind)).collect::<Vec<_>>(),
            [(true, "broadcast"), (false, "queue")]
        );
    }

    #[tokio::test]
    async fn shared_state_is_that_of_the_group() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        for session in ["a", "b"] {
            store.channels().join(member(session, "env_1", None)).await.unwrap();
        }
        let of = |session: &str| MessagesOf::new(store.clone(), session, None);
        let register = ChannelRequest::Register { key: "k".to_owned(), value: json!({"n": 1}) };
        of("a").request(register).await.unwrap();
        let get = || ChannelRequest::Get { key: "k".to_owned() };
        assert_eq!(of("b").request(get()).await.unwrap(), json!({"n": 1}));
        assert_eq!(of("alone").request(get()).await.unwrap(), Value::Null);
        assert_eq!(of("alone").request(ChannelRequest::Environment).await.unwrap(), json!("env_alone"));
    }
}
