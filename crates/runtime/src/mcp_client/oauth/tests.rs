//! Tests: haft sends tokens only to the server that they are for.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    os::unix::fs::PermissionsExt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use kit::Kind;
use serde_json::{Value, json};

use super::*;
use crate::mcp_client::test_server::{Answer, Asked, Stage, configured, connected, modern};

const REDIRECT: &str = "http://127.0.0.1:9/callback";

/// Deviations of an authorization server and its resource.
#[derive(Clone, Default)]
struct Odd {
    issuer: Option<&'static str>,
    token_endpoint: Option<&'static str>,
    /// The issuer that it names from this many tokens on.
    moves: Option<(usize, String)>,
    /// Whether each token expires at once.
    short: bool,
}

/// Starts a server at `/mcp` that is its own authorization server.
async fn guarded(odd: Odd) -> Stage {
    let given = Arc::new(AtomicUsize::new(0));
    Stage::new(move |origin, asked| {
        let count = given.load(Ordering::SeqCst);
        let moved = odd.moves.as_ref().filter(|(from, _)| count >= *from).map(|(_, to)| to.as_str());
        let path = asked.target.split('?').next().unwrap_or_default();
        match path {
            "/mcp" if asked.header("authorization") == Some(&format!("Bearer access-{count}")) => modern(asked),
            "/mcp" => {
                let at = format!("Bearer resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\", scope=\"read\"");
                Answer::new(401).with("www-authenticate", at)
            }
            "/.well-known/oauth-protected-resource/mcp" => Answer::json(&json!({
                "resource": format!("{origin}/mcp"), "authorization_servers": [moved.unwrap_or(origin)],
            })),
            "/.well-known/oauth-authorization-server" => Answer::json(&json!({
                "issuer": odd.issuer.unwrap_or(origin),
                "authorization_endpoint": format!("{origin}/authorize"),
                "token_endpoint": odd.token_endpoint.map_or(format!("{origin}/token"), str::to_owned),
                "registration_endpoint": format!("{origin}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
            })),
            "/register" => Answer::json(&json!({
                "client_id": "client-1", "client_secret": "secret-1", "redirect_uris": [REDIRECT],
            })),
            "/token" => {
                let number = given.fetch_add(1, Ordering::SeqCst) + 1;
                Answer::json(&json!({
                    "access_token": format!("access-{number}"), "refresh_token": format!("refresh-{number}"),
                    "token_type": "Bearer", "expires_in": if odd.short { 1 } else { 3600 },
                }))
            }
            _ => Answer::new(404),
        }
    })
    .await
}

struct Case {
    stage: Stage,
    state: tempfile::TempDir,
    logins: Logins,
    server: Server,
}

impl Case {
    async fn new(odd: Odd) -> Self {
        let stage = guarded(odd).await;
        let state = tempfile::tempdir().unwrap();
        let logins = Logins::in_state(state.path());
        let server = configured(&format!("{}/mcp", stage.origin), |_| {});
        Self { stage, state, logins, server }
    }

    async fn begin(&self) -> Signing {
        self.logins.begin(&self.server, &[], REDIRECT).await.unwrap()
    }

    /// Returns the address that the authorization server redirects a browser to.
    fn back(&self, signing: &Signing, iss: &str) -> String {
        format!("{REDIRECT}?code=code-1&state={}&iss={iss}", signing.state())
    }

    async fn signed_in(odd: Odd) -> Self {
        let case = Self::new(odd).await;
        let signing = case.begin().await;
        let back = case.back(&signing, &case.stage.origin);
        signing.finish(&back).await.unwrap();
        case
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        let dir = std::fs::read_dir(self.state.path().join("mcp/logins")).into_iter().flatten();
        dir.flatten().map(|it| it.path()).filter(|it| it.extension().is_some_and(|it| it == "json")).collect()
    }

    fn tokens_asked(&self) -> Vec<Asked> {
        self.stage.asked_for("/token")
    }
}

#[tokio::test]
async fn a_person_signs_in_and_requests_carry_the_token() {
    let case = Case::new(Odd::default()).await;
    let signing = case.begin().await;
    let address = Url::parse(signing.address()).unwrap();
    let query: Value = address
        .query_pairs()
        .map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())))
        .collect();
    assert_eq!(
        (address.path(), &query["client_id"], &query["code_challenge_method"]),
        ("/authorize", &json!("client-1"), &json!("S256"))
    );
    assert_eq!((&query["scope"], &query["resource"]), (&json!("read"), &json!(case.server.section.url)));
    let back = case.back(&signing, &case.stage.origin);
    signing.finish(&back).await.unwrap();
    let asked = &case.tokens_asked()[0];
    assert!(asked.field("code_verifier").is_some());
    assert_eq!(
        (asked.field("resource"), asked.field("client_secret")),
        (case.server.section.url.clone(), Some("secret-1".to_owned()))
    );

    assert_eq!(case.files()[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(case.files()[0].parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let service = connected(&case.server, &[], Some(&case.logins)).await.unwrap();
    assert_eq!(service.list_all_tools().await.unwrap().len(), 1);
    assert!(case.logins.forget(&case.server, &[]).unwrap());
    assert!(connected(&case.server, &[], Some(&case.logins)).await.is_err());
}

#[tokio::test]
async fn a_token_goes_to_the_address_it_is_for() {
    let case = Case::signed_in(Odd::default()).await;
    let other = Stage::new(|_, asked| modern(asked)).await;
    let moved = configured(&format!("{}/mcp", other.origin), |_| {});
    connected(&moved, &[], Some(&case.logins)).await.unwrap();
    assert!(other.asked().iter().all(|it| it.header("authorization").is_none()));
    // Renaming the credentials file does not help either.
    let page = case.logins.page("s", &Url::parse(moved.section.url.as_deref().unwrap()).unwrap());
    std::fs::rename(&case.files()[0], page.path()).unwrap();
    assert!(!case.logins.holds(&moved, &[]));
}

#[tokio::test]
async fn a_file_that_others_may_read_is_not_used() {
    let case = Case::signed_in(Odd::default()).await;
    std::fs::set_permissions(&case.files()[0], std::fs::Permissions::from_mode(0o644)).unwrap();
    let fault = connected(&case.server, &[], Some(&case.logins)).await.map(|_| ()).unwrap_err();
    assert!(fault.what.contains("others may read it"), "{}", fault.what);
}

#[tokio::test]
async fn expired_token_is_renewed_once_for_all() {
    let case = Case::signed_in(Odd { short: true, ..Odd::default() }).await;
    let login = Login::of(
        &case.logins,
        &case.server,
        &Url::parse(case.server.section.url.as_deref().unwrap()).unwrap(),
        &[],
    );
    assert_eq!(login.token().await.unwrap().as_deref(), Some("access-2"));
    let asked = &case.tokens_asked()[1];
    assert_eq!(
        (asked.field("grant_type"), asked.field("refresh_token")),
        (Some("refresh_token".to_owned()), Some("refresh-1".to_owned()))
    );
    // Two requests whose token was refused get the same new one.
    let (one, two) = tokio::join!(login.renewed("access-2"), login.renewed("access-2"));
    assert_eq!((one.unwrap(), two.unwrap()), (Some("access-3".to_owned()), Some("access-3".to_owned())));
    assert_eq!(case.tokens_asked().len(), 3);
}

#[tokio::test]
async fn credentials_go_only_to_their_authorization_server() {
    let other = guarded(Odd::default()).await;
    let case =
        Case::signed_in(Odd { short: true, moves: Some((1, other.origin.clone())), ..Odd::default() }).await;
    let login = Login::of(
        &case.logins,
        &case.server,
        &Url::parse(case.server.section.url.as_deref().unwrap()).unwrap(),
        &[],
    );
    assert_eq!(login.token().await.unwrap(), None);
    assert!(other.asked_for("/token").is_empty());
    assert_eq!(case.tokens_asked().len(), 1);
    // A person who signs in again registers as a new client.
    case.begin().await;
    assert_eq!(other.asked_for("/register").len(), 1);
}

#[tokio::test]
async fn answer_with_wrong_state_or_issuer_is_refused() {
    for (state, iss, why) in [
        (Some("made-up"), None, "belongs to another login"),
        (None, Some("https://evil.example"), "issuer mismatch"),
        (None, Some(""), "issuer"),
    ] {
        let case = Case::new(Odd::default()).await;
        let signing = case.begin().await;
        let mut back = case.back(&signing, iss.unwrap_or(&case.stage.origin));
        if let Some(state) = state {
            back = back.replace(signing.state(), state);
        }
        let fault = signing.finish(&back).await.unwrap_err();
        assert!(fault.kind == Kind::Denied && fault.what.contains(why), "{}", fault.what);
        assert!(case.tokens_asked().is_empty() && !case.logins.holds(&case.server, &[]));
    }
}

#[tokio::test]
async fn refusal_quotes_the_authorization_server() {
    let case = Case::new(Odd::default()).await;
    let signing = case.begin().await;
    let back =
        format!("{REDIRECT}?error=access_denied&error_description=not+you%1b[2J&state={}", signing.state());
    let fault = signing.finish(&back).await.unwrap_err();
    let who = &case.stage.origin;
    assert_eq!(fault.what, format!("not signed in to `s`: {who} says access_denied, not you\\u{{1b}}[2J"));
}

#[tokio::test]
async fn foreign_or_unencrypted_metadata_is_refused() {
    let case = Case::new(Odd { issuer: Some("https://evil.example"), ..Odd::default() }).await;
    let fault = case.logins.begin(&case.server, &[], REDIRECT).await.map(|_| ()).unwrap_err();
    assert!(fault.what.starts_with("can't sign in to `s`"), "{}", fault.what);
    let case = Case::new(Odd { token_endpoint: Some("http://auth.example/token"), ..Odd::default() }).await;
    let fault = case.logins.begin(&case.server, &[], REDIRECT).await.map(|_| ()).unwrap_err();
    assert_eq!(fault.what, "the server `s` names http://auth.example/token, which is not encrypted");
    assert!(case.stage.asked_for("/register").is_empty());
}

#[tokio::test]
async fn redirect_of_another_sign_in_is_rejected() {
    let case = Case::new(Odd::default()).await;
    let redirect = Redirect::listen(None).await.unwrap();
    let (uri, signing) = (redirect.uri(), case.begin().await);
    let (right, state) = (format!("{uri}?code=1&state={}", signing.state()), signing.state().to_owned());
    let browse = async {
        for wrong in
            [format!("{uri}?code=1&state=x"), uri.replace("callback", "") + "?state=" + &state, uri.clone()]
        {
            assert_eq!(reqwest::get(&wrong).await.unwrap().status(), 400, "{wrong}");
        }
        assert_eq!(reqwest::get(&right).await.unwrap().status(), 200);
    };
    let (answer, ()) = tokio::join!(redirect.answer(&signing, std::time::Duration::from_secs(20)), browse);
    assert_eq!(answer.unwrap(), right);
    // The port accepts one redirect.
    assert!(reqwest::get(&right).await.is_err());
}
