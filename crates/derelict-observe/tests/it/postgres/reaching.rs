//! How a server is reached: its address, its password, its encryption, and what may stand in between.

use derelict_observe::postgres::{Access, Parts, Secret, Server as Reached, Session, Settings};
use derelict_testkit::postgres::Server;

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
