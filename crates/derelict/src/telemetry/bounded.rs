//! Connections that cannot cost more than they are allowed to: in number, in time and in bytes that they send. What is
//! said on them is not looked at here.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// A request with the headers of any scraper fits into a fraction of it.
const MOST_BYTES: usize = 16 << 10;

/// How long to wait when no connection can be taken, mostly because there are no descriptors: others have to close some.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes connections while there are not too many.
pub(super) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    lifetime: Duration,
}

impl BoundedListener {
    /// So many connections at the same time, each for so long.
    pub(super) fn new(listener: TcpListener, connections: usize, lifetime: Duration) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(connections)), lifetime }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.expect("because the places are never closed");
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let deadline = Box::pin(tokio::time::sleep(self.lifetime));
                    return (Connection { stream, deadline, bytes: 0, _place: place }, peer);
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
    /// Given back with the connection.
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Fails once the time is up, and sees to it that whoever waits is woken then.
    fn in_time(&mut self, context: &mut Context<'_>) -> io::Result<()> {
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
    use std::future::ready;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn a_connection_beyond_the_bound_is_taken_when_another_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut bounded = BoundedListener::new(listener, 1, Duration::from_secs(600));
            let clients = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
            let (first, _) = bounded.accept().await;
            // The second client waits in the kernel's queue: it is the bound alone that keeps it there.
            tokio::select! {
                biased;
                _ = bounded.accept() => panic!("a second connection was taken"),
                () = ready(()) => {}
            }
            drop(first);
            let (_, peer) = bounded.accept().await;
            assert_eq!(peer, clients[1].local_addr().unwrap());
        });
    }
}
