//! How a server is reached: its address, its password, its encryption, and what may stand in between.

use std::path::PathBuf;

use derelict_observe::postgres::{Access, Parts, Secret, Server as Reached, Session, Settings, SslMode};
use derelict_observe::table::{IdScheme, Leadership, OwnerTable as _};
use derelict_testkit::postgres::{Database, Encrypted, Lending, Pooler, Server};

use super::{QUERY, TABLE, connected, operator, queries, refusal};

#[test]
fn a_session_by_parts_is_the_one_by_its_url() {
    let database = Server::shared().database();
    let parts = Parts {
        host: database.host().display().to_string(),
        port: Some(database.port()),
        dbname: Some(database.name().into()),
        user: Some("postgres".into()),
        password: None,
    };
    let settings = Settings::new(Reached::Parts(parts));
    assert_eq!(settings.place(), super::settings(&database).place());
    let mut session = Session::connect(&settings, Access::ReadWrite).unwrap();
    session.batch("making a table", "create table t (x int8); insert into t values (6)").unwrap();
    let add = session.prepare("adding", "insert into t select x + $1 from t").unwrap();
    assert_eq!(session.execute(&add, &[&1_i64]).unwrap(), 1);
    let sum = session.prepare("summing", "select sum(x)::int8, current_setting('application_name') from t").unwrap();
    let rows = session.query(&sum, &[]).unwrap();
    assert_eq!((rows[0].get::<_, i64>(0), rows[0].get::<_, String>(1)), (13, "derelict".to_owned()));
}

#[test]
fn a_read_only_session_writes_nothing() {
    let database = Server::shared().database();
    database.sql("create table t (x int)");
    let mut session = Session::connect(&super::settings(&database), Access::ReadOnly).unwrap();
    let error = session.batch("writing", "insert into t values (1)").unwrap_err().to_string();
    assert!(error.ends_with("cannot execute INSERT in a read-only transaction (SQLSTATE 25006)"), "{error}");
}

#[test]
fn a_wrong_password_is_told_once_and_not_shown() {
    let server = Server::with(&[]);
    let database = server.database();
    database.sql("create role reader login password 'right'");
    server.require_passwords();
    let url = |password: &str| database.url().replace("postgres@", &format!("reader:{password}@"));
    let connect =
        |password: &str| Session::connect(&Settings::new(Reached::Url(Secret::new(url(password)))), Access::ReadOnly);
    let error = connect("wr0ng").unwrap_err().to_string();
    assert_eq!(
        super::anonymous(&error, &database),
        "cannot connect to PostgreSQL at PLACE: password authentication failed for user \"reader\" (SQLSTATE 28P01)"
    );
    assert!(connect("right").is_ok());
    assert_eq!(server.log().matches("password authentication failed").count(), 1);
}

/// Whether a session over TCP came about encrypted, or else why not.
fn encrypted(database: &Database, host: &str, mode: SslMode, roots: Option<PathBuf>) -> Result<bool, String> {
    let parts = Parts {
        host: host.into(),
        port: Some(database.port()),
        dbname: Some(database.name().into()),
        user: Some("postgres".into()),
        password: None,
    };
    let mut settings = Settings::new(Reached::Parts(parts));
    (settings.ssl_mode, settings.ssl_root_cert) = (Some(mode), roots);
    let place = format!("cannot connect to {}: ", settings.place().unwrap());
    let mut session =
        Session::connect(&settings, Access::ReadOnly).map_err(|error| error.to_string().replace(&place, ""))?;
    let ask = session.prepare("asking", "select ssl from pg_stat_ssl where pid = pg_backend_pid()").unwrap();
    Ok(session.query(&ask, &[]).unwrap()[0].get(0))
}

#[test]
fn each_mode_of_encryption_checks_what_it_says() {
    let server = Encrypted::start();
    let database = server.database();
    let roots = || Some(server.authority());
    let others = || Some(server.other_authority());
    let by_name = |mode, roots| encrypted(&database, "localhost", mode, roots);
    let by_address = |mode, roots| encrypted(&database, "127.0.0.1", mode, roots);
    assert_eq!(by_name(SslMode::Disable, None), Ok(false));
    assert_eq!(by_name(SslMode::Prefer, None), Ok(true));
    assert_eq!(by_name(SslMode::Prefer, others()), Ok(true));
    assert_eq!(by_address(SslMode::Require, None), Ok(true));
    assert_eq!(by_address(SslMode::Require, roots()), Ok(true));
    assert_eq!(by_address(SslMode::VerifyCa, roots()), Ok(true));
    assert_eq!(by_name(SslMode::VerifyFull, roots()), Ok(true));
    let unknown = "error performing TLS handshake: invalid peer certificate: UnknownIssuer";
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        assert_eq!(by_name(mode, others()), Err(unknown.to_owned()), "{mode:?}");
    }
    assert_eq!(by_name(SslMode::VerifyFull, None), Err(unknown.to_owned()));
    let misnamed = by_address(SslMode::VerifyFull, roots()).unwrap_err();
    assert!(
        misnamed
            .starts_with("error performing TLS handshake: invalid peer certificate: certificate not valid for name"),
        "{misnamed}"
    );
}

#[test]
fn a_server_that_does_not_encrypt_is_refused_where_encryption_is_required() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::with(&["listen_addresses=127.0.0.1", &format!("port={port}")]);
    let database = server.database();
    assert_eq!(encrypted(&database, "127.0.0.1", SslMode::Prefer, None), Ok(false));
    for mode in [SslMode::Require, SslMode::VerifyFull] {
        let why = encrypted(&database, "127.0.0.1", mode, None).unwrap_err();
        assert_eq!(why, "error performing TLS handshake: server does not support TLS", "{mode:?}");
    }
}

#[test]
fn a_pooler_of_transactions_is_refused_and_one_of_sessions_is_not() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let pooler = Pooler::start(Server::shared(), Lending::Transaction);
    let why = refusal(operator(&pooler.database(&database), IdScheme::Text, queries(QUERY)));
    assert!(why.contains(" is behind a pooler that lends a session for one transaction only"), "{why}");
    drop(pooler);
    let pooler = Pooler::start(Server::shared(), Lending::Session);
    let mut owners = connected(operator(&pooler.database(&database), IdScheme::Text, queries(QUERY)));
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::Ours);
    let mut direct = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    assert_eq!(direct.lead("/srv").unwrap(), Leadership::Theirs);
}
