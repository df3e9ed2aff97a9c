//! Checks of a running pullq with the CloudEvents SDK for Rust: what it sends in either mode it reads
//! back equal, and a worker's round.
//!
//! `cloudevents-rust BASE_URL` prints a JSON object a line, {"name", "failure"}, for each check.

use cloudevents::{AttributesReader, Data, Event, EventBuilder, EventBuilderV10};
use serde_json::{json, Value};

type Outcome = Result<(), Box<dyn std::error::Error>>;

struct Server {
    url: String,
}

impl Server {
    fn post(
        &self,
        path: &str,
        query: &str,
        headers: &http::HeaderMap,
        body: Vec<u8>,
    ) -> Result<Value, Box<dyn std::error::Error>> {
        let mut request = http::Request::post(format!("{}/ce/queue/{path}?{query}", self.url));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let answer = agent
            .run(request.body(body)?)?
            .body_mut()
            .read_to_string()?;
        let answer: Value = serde_json::from_str(&answer)?;
        match answer["is_error"] {
            Value::Bool(false) => Ok(answer["data"].clone()),
            _ => Err(answer.to_string().into()),
        }
    }

    fn send_structured(&self, event: &Event) -> Outcome {
        let mut headers = http::HeaderMap::new();
        headers.insert("content-type", "application/cloudevents+json".parse()?);
        self.post("send", "", &headers, serde_json::to_vec(event)?)?;
        Ok(())
    }

    fn send_binary(&self, event: Event) -> Outcome {
        // The SDK's own binding; it encodes nothing in headers.
        let request = http::Request::<Option<Vec<u8>>>::try_from(event)?;
        let (parts, body) = request.into_parts();
        self.post("send", "", &parts.headers, body.unwrap_or_default())?;
        Ok(())
    }

    fn receive(
        &self,
        channel: &str,
        options: &str,
    ) -> Result<Vec<Event>, Box<dyn std::error::Error>> {
        let query =
            format!("channel={channel}&client_id=rust&max_messages=10&wait_timeout=2{options}");
        let data = self.post("receive", &query, &http::HeaderMap::new(), Vec::new())?;
        Ok(serde_json::from_value(data["messages"].clone())?)
    }
}

fn event(channel: &str, id: &str) -> EventBuilderV10 {
    EventBuilderV10::new()
        .id(id)
        .ty("com.example.test")
        .source("urn:rust")
        .subject(channel)
        .time("2026-11-30T10:40:00Z")
}

fn cases(channel: &str) -> Result<Vec<Event>, Box<dyn std::error::Error>> {
    Ok(vec![
        event(channel, "json")
            .data(
                "application/json",
                json!({"task": 1, "nested": [null, true, "é🚀"]}),
            )
            .build()?,
        event(channel, "array")
            .data_with_schema(
                "application/json",
                "https://example.com/schema",
                json!([1, 2.5]),
            )
            .build()?,
        event(channel, "string")
            .data("application/json", json!("just a string"))
            .build()?,
        event(channel, "text").data("text/plain", "Grüße").build()?,
        event(channel, "xml")
            .data("application/xml", "<x/>")
            .build()?,
        event(channel, "bytes")
            .data("application/octet-stream", vec![0u8, 255])
            .build()?,
        event(channel, "none").extension("text", "7").build()?,
    ])
}

fn equal<T: PartialEq + std::fmt::Debug>(got: T, expected: T) -> Outcome {
    match got == expected {
        true => Ok(()),
        false => Err(format!("got {got:?}, expected {expected:?}").into()),
    }
}

fn structured_events_are_read_back_equal(server: &Server) -> Outcome {
    let mut sent = cases("rust-structured")?;
    sent.push(
        event("rust-structured", "types")
            .extension("flag", true)
            .extension("count", -7i64)
            .build()?,
    );
    for event in &sent {
        server.send_structured(event)?;
    }
    equal(server.receive("rust-structured", "")?, sent)
}

/// Data as bytes, since in binary mode the SDK sends nothing else.
fn bytes(event: &Event) -> Option<Vec<u8>> {
    event.data().map(|data| match data {
        Data::Json(value) => value.to_string().into_bytes(),
        Data::String(text) => text.clone().into_bytes(),
        Data::Binary(bytes) => bytes.clone(),
    })
}

fn binary_events_are_read_back_equal(server: &Server) -> Outcome {
    let sent = cases("rust-binary")?;
    for event in &sent {
        server.send_binary(event.clone())?;
    }
    let received = server.receive("rust-binary", "")?;
    equal(received.len(), sent.len())?;
    for (received, sent) in received.iter().zip(&sent) {
        equal(received.id(), sent.id())?;
        equal(
            (
                received.ty(),
                received.source(),
                received.subject(),
                received.time(),
            ),
            (sent.ty(), sent.source(), sent.subject(), sent.time()),
        )?;
        equal(
            (received.datacontenttype(), received.dataschema()),
            (sent.datacontenttype(), sent.dataschema()),
        )?;
        equal(
            received.iter_extensions().collect::<Vec<_>>(),
            sent.iter_extensions().collect(),
        )?;
        equal(bytes(received), bytes(sent))?;
    }
    Ok(())
}

fn a_workers_round(server: &Server) -> Outcome {
    let channel = "rust-round";
    let job = |number: u32| {
        event(channel, &number.to_string())
            .data("application/json", json!({ "number": number }))
            .build()
    };
    for number in 1..=3 {
        server.send_structured(&job(number)?)?;
    }
    for _ in 0..2 {
        equal(server.receive(channel, "&is_peek=true")?.len(), 3)?;
    }
    for number in 1..=3 {
        let query = format!("channel={channel}&client_id=rust&max_messages=1&wait_timeout=5");
        let data = server.post("receive", &query, &http::HeaderMap::new(), Vec::new())?;
        equal(&data["messages"][0]["data"], &json!({ "number": number }))?;
    }
    server.send_structured(&job(4)?)?;
    let drained = server.post(
        "ack_all",
        &format!("channel={channel}&client_id=rust&wait_timeout=5"),
        &http::HeaderMap::new(),
        Vec::new(),
    )?;
    equal(drained, json!({ "affected_messages": 1 }))
}

fn main() {
    let server = Server {
        url: std::env::args().nth(1).expect("BASE_URL"),
    };
    let checks: [(&str, fn(&Server) -> Outcome); 3] = [
        (
            "structured events are read back equal",
            structured_events_are_read_back_equal,
        ),
        (
            "binary events are read back equal",
            binary_events_are_read_back_equal,
        ),
        ("a worker's round", a_workers_round),
    ];
    for (name, check) in checks {
        let failure = check(&server).err().map(|error| error.to_string());
        println!("{}", json!({ "name": name, "failure": failure }));
    }
}
