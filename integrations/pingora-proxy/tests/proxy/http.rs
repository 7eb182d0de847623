//! As much of HTTP/1.1 as the tests need, by hand, so that nothing retries.

use std::io::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Reads a head. Returns its first line and the length of what follows, or `None` at the end of the
/// connection.
pub(crate) async fn head(stream: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<(String, usize)>> {
    let (mut first, mut length) = (String::new(), 0);
    if stream.read_line(&mut first).await? == 0 {
        return Ok(None);
    }
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Ok(Some((first.trim_end().to_owned(), length)));
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(Error::other)?;
        }
    }
}

/// Reads an answer: its status and its body.
pub(crate) async fn answer(stream: &mut BufReader<TcpStream>) -> Result<(u16, String)> {
    let Some((first, length)) = head(stream).await? else { return Err(ErrorKind::UnexpectedEof.into()) };
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status.ok_or(ErrorKind::InvalidData)?, String::from_utf8(body).map_err(Error::other)?))
}

/// Sends a request, and reads its answer.
pub(crate) async fn get(stream: &mut BufReader<TcpStream>, path: &str) -> Result<(u16, String)> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    answer(stream).await
}

/// Asserts that a request is answered by 502. Returns after how long. Pingora closes the
/// connection, and has then written to its log.
pub(crate) async fn bad_gateway(mut stream: BufReader<TcpStream>, path: &str) -> Duration {
    let since = Instant::now();
    let (status, _) = get(&mut stream, path).await.expect("an answer");
    let elapsed = since.elapsed();
    assert_eq!(status, 502);
    // It may also be reset.
    let _ = stream.read_to_end(&mut Vec::new()).await;
    elapsed
}
