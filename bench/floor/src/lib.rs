//! The floor: a Rust Worker that hands a request to a Durable Object, which reads its body and either
//! inserts it as one row (`POST /row/NAME`) or does nothing with it (`POST /nothing/NAME`).

use worker::{
    durable_object, event, Context, DurableObject, Env, Request, Response, Result, SqlStorageValue,
    State,
};

#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: Context) -> Result<Response> {
    let path = request.path();
    let object = env
        .durable_object("FLOOR")?
        .id_from_name(&path)?
        .get_stub()?;
    object.fetch_with_request(request).await
}

#[durable_object]
pub struct FloorObject {
    state: State,
}

impl DurableObject for FloorObject {
    fn new(state: State, _env: Env) -> FloorObject {
        let table =
            "CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, body BLOB NOT NULL)";
        if let Err(error) = state.storage().sql().exec(table, None) {
            worker::console_error!("no table: {error:?}");
        }
        FloorObject { state }
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let body = request.bytes().await?;
        if request.path().starts_with("/row/") {
            let row = vec![SqlStorageValue::Blob(body)];
            self.state
                .storage()
                .sql()
                .exec("INSERT INTO message (body) VALUES (?)", row)?;
        }
        Response::ok("ok")
    }
}
