//! Tools that lack a permission: the error says how to grant it.

use super::support::{Fixture, navi};

#[tokio::test]
async fn a_variable_that_only_haft_has_is_named_with_its_grant() {
    kit::needs!(Python);
    let body = "import os\nreturn os.environ['HAFT_TEST_KEPT'] if args.get('a', True) else ''";
    let fixture =
        Fixture::new(&[navi("keyed", body), navi("absent", "import os\nreturn os.environ['HAFT_NO_SUCH']")])
            .await;
    let said = fixture.says("keyed").await;
    assert!(said.contains("KeyError: 'HAFT_TEST_KEPT'"), "{said}");
    assert!(said.contains("with `env = [\"HAFT_TEST_KEPT\"]` of `[tool.keyed]` in haft.toml"), "{said}");
    let said = fixture.says("absent").await;
    assert!(said.contains("KeyError: 'HAFT_NO_SUCH'") && !said.contains("[tool."), "{said}");
}

#[tokio::test]
async fn a_host_that_was_refused_is_named_with_what_grants_it_to_a_tool() {
    kit::needs!(Python);
    let body = "import urllib.request\nurllib.request.urlopen('http://example.org/')";
    let fixture = Fixture::new(&[navi("page", body)]).await;
    let said = fixture.says("page").await;
    let workspace = fixture.workspace().display();
    let grant = format!(
        "`haft --dir {workspace} grants add 'net example.org'`, or `net = [\"example.org\"]` of `[tool.page]` in haft.toml"
    );
    assert!(said.contains(&grant) && !said.contains("`shell`"), "{said}");
}

#[tokio::test]
async fn a_granted_host_at_an_address_that_is_not_public_is_told_with_its_port() {
    kit::needs!(Python);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = format!(
        "import os, urllib.request\nos.environ['no_proxy'] = os.environ['NO_PROXY'] = ''\n\
         urllib.request.urlopen('http://localhost:{port}/')"
    );
    let fixture = Fixture::new(&[navi("here", &body)]).await;
    fixture.session.hosts().grant_lasting("localhost");
    let said = fixture.says("here").await;
    assert!(
        said.contains(&format!("localhost:{port} was refused: localhost is granted, but is at ")),
        "{said}"
    );
    assert!(said.contains(&format!("grants add 'net localhost:{port}'")), "{said}");
}
