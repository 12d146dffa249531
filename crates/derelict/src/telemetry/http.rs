//! The daemon's endpoints: `/metrics`, `/healthz` and `/readyz`. They live on a thread of their own and touch no
//! database, no file and no lock that is held over a system call, so that they answer while a sweep hangs.
//!
//! Whoever can reach the port can cost little: connections, their lifetime and their bytes are bounded, each serves one
//! request, and none may carry a body. There is no TLS and no password here, since nothing secret is served.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::sync::oneshot;

use crate::telemetry::bounded::BoundedListener;
use crate::telemetry::heartbeat::{Heartbeat, Running};
use crate::telemetry::metrics::{Exposition, Metrics};
use crate::text;

/// What bounds the endpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// A sweep without progress for so long is ill.
    pub(crate) stalled_after: Duration,
    /// So many connections at the same time; others wait in the kernel's queue.
    pub(crate) connections: usize,
    /// A connection ends after so long, whatever it is doing.
    pub(crate) lifetime: Duration,
}

impl Bounds {
    /// Enough for a few scrapers and probes, and too little to be a burden. A scrape takes milliseconds.
    pub(crate) fn stalled_after(stalled_after: Duration) -> Self {
        Self { stalled_after, connections: 32, lifetime: Duration::from_secs(10) }
    }
}

/// The endpoints, being served. Dropping it stops them.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    leaving: Arc<AtomicBool>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Listens and serves. Ready from here on: whoever starts this has read its configuration.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the thread cannot be started.
    pub(crate) fn start(
        address: SocketAddr,
        metrics: Metrics,
        heartbeat: Heartbeat,
        bounds: Bounds,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let leaving = Arc::new(AtomicBool::new(false));
        let router = router(Served { metrics, heartbeat, bounds, leaving: Arc::clone(&leaving) });
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = move || {
            runtime.block_on(async move {
                let served = axum::serve(BoundedListener::new(listener, bounds.connections, bounds.lifetime), router);
                let until = async {
                    // An error means that the sender is gone, which asks for the same.
                    let _ = stopped.await;
                };
                served.with_graceful_shutdown(until).await
            })
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(serve)?;
        Ok(Self { address, leaving, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The program is about to end: `/readyz` says so while the sweep in hand is finished.
    pub(crate) fn leaving(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Answers what was asked and stops, within the lifetime of a connection.
    ///
    /// # Errors
    /// When serving had failed.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        self.leaving();
        drop(self.stop.take());
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(io::Error::other("the thread that serves metrics panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever wants to know how serving ended stops it.
        let _ = self.end();
    }
}

/// What the endpoints answer from.
#[derive(Clone)]
struct Served {
    metrics: Metrics,
    heartbeat: Heartbeat,
    bounds: Bounds,
    leaving: Arc<AtomicBool>,
}

fn router(served: Served) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/readyz", get(readiness))
        .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
        .layer(from_fn(one_request_without_a_body))
        .with_state(served)
}

async fn metrics(State(served): State<Served>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let exposition = Exposition::accepted(accept);
    ([(CONTENT_TYPE, exposition.content_type())], served.metrics.encode_as(exposition)).into_response()
}

async fn health(State(served): State<Served>) -> Response {
    let stalled = served.heartbeat.stalled(served.bounds.stalled_after);
    if stalled.is_empty() {
        return "ok\n".into_response();
    }
    let told: String = stalled.iter().map(stall).collect();
    (StatusCode::SERVICE_UNAVAILABLE, told).into_response()
}

fn stall(sweep: &Running) -> String {
    let root = text::name(sweep.root.as_bytes());
    let seconds = sweep.since_progress.as_secs();
    format!("the sweep of {root} has made no progress for {seconds} seconds\n")
}

/// Not being the one that sweeps is ready: whoever waits for a lock can take over at once.
async fn readiness(State(served): State<Served>) -> Response {
    if served.leaving.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    "ready\n".into_response()
}

/// A body is refused before a byte of it is read, and no connection is kept for another request.
async fn one_request_without_a_body(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let length = headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0");
    let mut response = if length || headers.contains_key(TRANSFER_ENCODING) {
        (StatusCode::PAYLOAD_TOO_LARGE, "no request here has a body\n").into_response()
    } else {
        next.run(request).await
    };
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpStream};

    use derelict_core::outcome::FateName;

    use super::*;
    use crate::reaper::record::Mode;
    use crate::telemetry::samples::{Clock, still, sweep};

    const STALLED: Duration = Duration::from_secs(600);

    /// An answer that takes longer fails a test instead of hanging it.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn start(metrics: &Metrics, heartbeat: &Heartbeat, bounds: Bounds) -> Server {
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Server::start(anywhere, metrics.clone(), heartbeat.clone(), bounds).unwrap()
    }

    fn plain() -> Server {
        start(&Metrics::new(still()), &still(), Bounds::stalled_after(STALLED))
    }

    /// Sends bytes and reads to the end of the connection, which is the end of the answer.
    fn exchange(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Status and body.
    fn get(server: &Server, path: &str) -> (u16, String) {
        let answer = exchange(server, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    #[test]
    fn metrics_are_served_in_the_format_that_is_asked_for() {
        let metrics = Metrics::new(still());
        let server = start(&metrics, &still(), Bounds::stalled_after(STALLED));
        assert_eq!(get(&server, "/metrics"), (200, String::new()));
        metrics.record(&sweep("r", Mode::Report, "finished", &[FateName::Removable]));
        assert_eq!(get(&server, "/metrics"), (200, metrics.encode()));
        let ask = "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n";
        let answer = exchange(&server, ask).to_ascii_lowercase();
        assert!(answer.contains("content-type: application/openmetrics-text; version=1.0.0"), "{answer}");
        assert!(answer.ends_with("# eof\n"), "{answer}");
        server.stop().unwrap();
    }

    #[test]
    fn a_stalled_sweep_is_told_with_its_root_and_for_how_long() {
        let clock = Clock::new();
        let heartbeat = Heartbeat::new(clock.reader());
        let server = start(&Metrics::new(heartbeat.clone()), &heartbeat, Bounds::stalled_after(STALLED));
        let ok = (200, "ok\n".to_owned());
        assert_eq!(get(&server, "/healthz"), ok);
        let pulse = heartbeat.begin("agents\n");
        clock.pass(STALLED - Duration::from_secs(1));
        assert_eq!(get(&server, "/healthz"), ok);
        clock.pass(Duration::from_secs(1));
        let told = "the sweep of agents\\n has made no progress for 600 seconds\n".to_owned();
        assert_eq!(get(&server, "/healthz"), (503, told));
        assert_eq!(get(&server, "/readyz"), (200, "ready\n".into()));
        pulse.progress();
        assert_eq!(get(&server, "/healthz"), ok);
        clock.pass(STALLED);
        assert_eq!(get(&server, "/healthz").0, 503);
        drop(pulse);
        assert_eq!(get(&server, "/healthz"), ok);
    }

    #[test]
    fn while_it_leaves_it_is_not_ready_and_still_healthy() {
        let server = plain();
        assert_eq!(get(&server, "/readyz"), (200, "ready\n".into()));
        server.leaving();
        assert_eq!(get(&server, "/readyz"), (503, "shutting down\n".into()));
        assert_eq!(get(&server, "/healthz"), (200, "ok\n".into()));
    }

    #[test]
    fn after_the_stop_nobody_listens() {
        let server = plain();
        let address = server.address();
        server.stop().unwrap();
        assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn an_address_that_is_taken_is_an_error() {
        let server = plain();
        let again = Server::start(server.address(), Metrics::new(still()), still(), Bounds::stalled_after(STALLED));
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn other_paths_methods_and_bodies_are_refused() {
        let server = plain();
        assert_eq!(get(&server, "/"), (404, "not found\n".into()));
        assert_eq!(get(&server, "/metrics/x").0, 404);
        let post = exchange(&server, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
        for body in ["Content-Length: 9", "Transfer-Encoding: chunked"] {
            let answer = exchange(&server, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{body}\r\n\r\n"));
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        }
    }

    #[test]
    fn a_connection_serves_one_request() {
        let server = plain();
        let one = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";
        let answer = exchange(&server, &one.repeat(2));
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }

    #[test]
    fn whoever_sends_half_a_request_is_hung_up_on() {
        let bounds = Bounds { lifetime: Duration::from_millis(50), ..Bounds::stalled_after(STALLED) };
        let server = start(&Metrics::new(still()), &still(), bounds);
        assert_eq!(exchange(&server, "GET /metrics HTTP/1.1\r\nHost:"), "");
    }

    #[test]
    fn idle_connections_do_not_hold_up_others_for_longer_than_their_lifetime() {
        let bounds = Bounds { lifetime: Duration::from_millis(50), connections: 2, ..Bounds::stalled_after(STALLED) };
        let server = start(&Metrics::new(still()), &still(), bounds);
        let idle: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        assert_eq!(get(&server, "/readyz"), (200, "ready\n".into()));
        drop(idle);
        server.stop().unwrap();
    }

    #[test]
    fn whoever_sends_without_end_is_hung_up_on() {
        let server = plain();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let line = format!("X: {}\r\n", "x".repeat(1000));
        let sent = std::iter::repeat_n(line, 1 << 16).try_for_each(|line| stream.write_all(line.as_bytes()));
        sent.unwrap_err();
    }
}
