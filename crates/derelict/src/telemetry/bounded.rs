//! Connections that cannot cost more than they are allowed to: in number, in time and in bytes that they send. What is
//! said on them is not looked at here.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// A request with the headers of any scraper fits into a fraction of it.
const MOST_BYTES: usize = 16 << 10;

/// How long to wait when no connection can be taken, mostly because there are no descriptors: others have to close some.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes connections. Of too many the oldest has to make room: what answers takes a moment, so it is one that says
/// nothing, and nobody who keeps connections open can keep a health check out.
pub(super) struct BoundedListener {
    listener: TcpListener,
    /// The oldest first; closed where the connection has ended.
    live: VecDeque<oneshot::Sender<()>>,
    most: usize,
    lifetime: Duration,
}

impl BoundedListener {
    /// So many connections at the same time, each for so long.
    pub(super) fn new(listener: TcpListener, connections: usize, lifetime: Duration) -> Self {
        Self { listener, live: VecDeque::new(), most: connections, lifetime }
    }

    fn admit(&mut self) -> oneshot::Receiver<()> {
        self.live.retain(|connection| !connection.is_closed());
        if self.live.len() >= self.most
            && let Some(oldest) = self.live.pop_front()
        {
            // One that has ended meanwhile has made room by itself.
            let _ = oldest.send(());
        }
        let (oust, ousted) = oneshot::channel();
        self.live.push_back(oust);
        ousted
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let deadline = Box::pin(tokio::time::sleep(self.lifetime));
                    return (Connection { stream, deadline, bytes: 0, ousted: Some(self.admit()) }, peer);
                }
                // The peer went away again; the next one may be waiting.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// One connection and what is left of its bounds.
pub(super) struct Connection {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    bytes: usize,
    /// Says that it has to make room; none when nobody can say so any more.
    ousted: Option<oneshot::Receiver<()>>,
}

impl Connection {
    /// Fails once the time is up or room has to be made, and sees to it that whoever waits is woken then.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.ousted.as_mut().map(|ousted| Pin::new(ousted).poll(context)) {
            Some(Poll::Ready(Ok(()))) => {
                self.ousted = None;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Some(Poll::Ready(Err(_))) => self.ousted = None,
            Some(Poll::Pending) | None => {}
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        if self.bytes > MOST_BYTES {
            return Poll::Ready(Err(io::Error::other("the request is too long")));
        }
        let before = out.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, out);
        self.bytes += out.filled().len() - before;
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.in_time(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[test]
    fn a_connection_beyond_the_bound_takes_the_place_of_the_oldest() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut bounded = BoundedListener::new(listener, 2, Duration::from_secs(600));
            let mut clients = [(); 3].map(|()| std::net::TcpStream::connect(address).unwrap());
            let (mut first, _) = bounded.accept().await;
            let (mut second, _) = bounded.accept().await;
            let (mut third, peer) = bounded.accept().await;
            assert_eq!(peer, clients[2].local_addr().unwrap());
            let mut byte = [0];
            assert_eq!(first.read(&mut byte).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
            for (client, connection) in clients[1..].iter_mut().zip([&mut second, &mut third]) {
                std::io::Write::write_all(client, b"x").unwrap();
                assert_eq!(connection.read(&mut byte).await.unwrap(), 1);
            }
            // One that has ended has made room, and nobody has to go.
            drop(second);
            let _client = std::net::TcpStream::connect(address).unwrap();
            let (_fourth, _) = bounded.accept().await;
            std::io::Write::write_all(&mut clients[2], b"x").unwrap();
            assert_eq!(third.read(&mut byte).await.unwrap(), 1);
            // Without the listener nobody can be ousted, and what is under way goes on.
            drop(bounded);
            std::io::Write::write_all(&mut clients[2], b"x").unwrap();
            assert_eq!(third.read(&mut byte).await.unwrap(), 1);
        });
    }
}
