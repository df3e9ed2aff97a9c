//! A server that reads requests and answers each at once: what the generator can do when nothing holds
//! it up.

use crate::client::Result;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Prints its port and serves until it is ended.
pub fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || answer(stream));
    }
    Ok(())
}

/// The generator has one request on the way at a time and writes it at once, so a request is over where
/// its body's bytes are.
fn answer(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        let count = stream.read(&mut buffer[length..]).ok()?;
        if count == 0 {
            return None;
        }
        length += count;
        if is_whole(&buffer[..length])? {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .ok()?;
            length = 0;
        }
    }
}

fn is_whole(request: &[u8]) -> Option<bool> {
    let Some(head) = crate::client::find(request, b"\r\n\r\n") else {
        return Some(false);
    };
    let text = std::str::from_utf8(&request[..head]).ok()?;
    let (_, rest) = text.split_once("Content-Length: ")?;
    let body: usize = rest.lines().next()?.parse().ok()?;
    Some(request.len() >= head + 4 + body)
}
