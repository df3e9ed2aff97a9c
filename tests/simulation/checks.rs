//! Looking at a queue from outside and from behind: does it say what the model says, do its tables
//! add up, and does a queue opened from the tables say the same?

use super::broken::{ensure, Broken};
use super::host::{storage_failed, Host};
use super::queue::Queue;

const RECOUNT: &str = "9: counters equal a recount";
const REBUILT: &str = "2: everything is rebuilt from the tables";
/// Messages that a deep check peeks at.
const PEEKED: u32 = 400;
/// Hold rows that may wait to be used again.
const MAX_SPARE_HOLD_ROWS: usize = 64;

/// What costs next to nothing, after every operation.
pub fn at_a_glance(host: &mut Host) -> Result<(), Broken> {
    let wall_ms = host.last_wall_ms();
    let Some(queue) = &mut host.queue else {
        return Ok(());
    };
    let model = &host.model;
    ensure!(
        model.config.settings.delivery_paused
            || !model.is_deliverable(host.now_ms)
            || queue.may_deliver(wall_ms),
        "10: whoever waits is told of a deliverable message",
        "the queue says that there is none"
    );
    ensure!(
        queue.backlog_count() == model.backlog() as u64,
        RECOUNT,
        "a backlog of {} instead of {}",
        queue.backlog_count(),
        model.backlog()
    );
    ensure!(
        queue.messages_out() == model.out(),
        RECOUNT,
        "{} messages are out instead of {}",
        queue.messages_out(),
        model.out()
    );
    match &host.queue {
        Some(queue) => next_event(host, queue),
        None => Ok(()),
    }
}

fn next_event(host: &Host, queue: &Queue) -> Result<(), Broken> {
    let Some(event_ms) = host.model.next_event_ms(host.now_ms) else {
        return Ok(());
    };
    let in_ms = event_ms - host.now_ms;
    let said = queue.next_event_in_ms();
    ensure!(
        said.is_some_and(|said| said <= in_ms),
        "10: the alarm stands no later than what happens by itself",
        "{said:?} ms instead of {in_ms} ms"
    );
    Ok(())
}

/// After a tick nothing is due any more but moves and a redrive's next portion: an alarm does not fire again and again.
pub fn nothing_is_due(host: &Host) -> Result<(), Broken> {
    let Some(queue) = &host.queue else {
        return Ok(());
    };
    ensure!(
        queue.next_event_in_ms() != Some(0)
            || host.model.moving() > 0
            || host.model.next_portion_ms().is_some(),
        "10: an alarm does what is due",
        "after a tick something is still due at once"
    );
    Ok(())
}

/// What the queue says about itself.
pub fn metrics(host: &mut Host) -> Result<(), Broken> {
    let wall_ms = host.last_wall_ms();
    let Some(queue) = &mut host.queue else {
        return Ok(());
    };
    let said = queue.metrics(&host.sql).map_err(storage_failed)?;
    let model = &host.model;
    ensure!(
        said.counters == model.counters,
        RECOUNT,
        "\n  said   {:?}\n  counted {:?}",
        said.counters,
        model.counters
    );
    ensure!(
        said.backlog_count == model.backlog() as u64 && said.backlog_bytes == model.backlog_bytes,
        RECOUNT,
        "a backlog of {} with {} bytes instead of {} with {}",
        said.backlog_count,
        said.backlog_bytes,
        model.backlog(),
        model.backlog_bytes
    );
    ensure!(
        said.oldest_message_ms == model.oldest_sent_ms(),
        RECOUNT,
        "the oldest message is of {:?} instead of {:?}",
        said.oldest_message_ms,
        model.oldest_sent_ms()
    );
    let states = queue.states(&host.sql, wall_ms).map_err(storage_failed)?;
    ensure!(
        (states.waiting, states.out, states.delayed) == model.states(host.now_ms),
        RECOUNT,
        "{states:?} instead of {:?}",
        model.states(host.now_ms)
    );
    ensure!(
        queue.redrive() == model.redrive_status(),
        "9: a redrive says how far it is",
        "\n  said    {:?}\n  counted {:?}",
        queue.redrive(),
        model.redrive_status()
    );
    ensure!(
        queue.config() == &model.config && queue.purged_ms() == model.purged_ms,
        "2: settings and the last purge are kept",
        "{:?}, {:?} instead of {:?}, {:?}",
        queue.config(),
        queue.purged_ms(),
        model.config,
        model.purged_ms
    );
    Ok(())
}

/// Everything that can be seen of a queue that is open.
pub fn deep(host: &mut Host) -> Result<(), Broken> {
    metrics(host)?;
    tables(host)?;
    let Some(mut queue) = host.queue.take() else {
        return Ok(());
    };
    let result = peek_and_twin(host, &mut queue);
    host.queue = Some(queue);
    result
}

fn peek_and_twin(host: &Host, queue: &mut Queue) -> Result<(), Broken> {
    let wall_ms = host.last_wall_ms();
    let peeked = queue
        .peek(&host.sql, wall_ms, PEEKED)
        .map_err(storage_failed)?;
    host.model.peeked(host.now_ms, PEEKED as usize, &peeked)?;
    let twin = Queue::open(&host.sql, wall_ms).map_err(storage_failed)?;
    let Some(mut twin) = twin else {
        return Err(Broken::new(REBUILT, "nothing was found"));
    };
    let mut said = queue.metrics(&host.sql).map_err(storage_failed)?;
    let rebuilt = twin.metrics(&host.sql).map_err(storage_failed)?;
    said.counters.empty_pulls = rebuilt.counters.empty_pulls;
    ensure!(said == rebuilt, REBUILT, "\n  {said:?}\n  {rebuilt:?}");
    ensure!(
        twin.messages_out() == queue.messages_out() && twin.config() == queue.config(),
        REBUILT,
        "{} messages are out, {} were",
        twin.messages_out(),
        queue.messages_out()
    );
    // Time that passed without a write is forgotten: then other messages are ready.
    if twin.now_ms(wall_ms) == host.now_ms {
        let again = twin
            .peek(&host.sql, wall_ms, PEEKED)
            .map_err(storage_failed)?;
        ensure!(
            again == peeked,
            REBUILT,
            "a peek shows {} messages, and showed {} or others",
            again.len(),
            peeked.len()
        );
        next_event(host, &twin)?;
    }
    Ok(())
}

fn number(host: &Host, sql: &str) -> i64 {
    let row = host.sql.connection().prepare_cached(sql);
    let read = row.and_then(|mut row| row.query_row([], |row| row.get(0)));
    read.expect("the tables can be counted")
}

/// The tables, counted row by row.
pub fn tables(host: &Host) -> Result<(), Broken> {
    let model = &host.model;
    let number = |sql: &str| number(host, sql);
    let count = number("SELECT coalesce(sum(count), 0) FROM block")
        - number("SELECT coalesce(sum(settled), 0) FROM progress");
    let bytes = number("SELECT coalesce(sum(bytes), 0) FROM block")
        - number("SELECT coalesce(sum(bytes), 0) FROM progress");
    ensure!(
        count == model.backlog() as i64 && bytes == model.backlog_bytes as i64,
        RECOUNT,
        "the tables have {count} messages with {bytes} bytes, {} with {} were right",
        model.backlog(),
        model.backlog_bytes
    );
    let blocks = number("SELECT count(*) FROM block");
    ensure!(
        blocks == model.live_groups() as i64,
        "9: a block is deleted when its last message is settled",
        "{blocks} blocks instead of {}",
        model.live_groups()
    );
    let strays = number(
        "SELECT count(*) FROM progress LEFT JOIN block ON block.id = progress.id
         WHERE block.id IS NULL OR progress.settled >= block.count",
    );
    ensure!(
        strays == 0,
        RECOUNT,
        "{strays} progress rows have no block or a finished one"
    );
    let mut rows = host
        .sql
        .connection()
        .prepare_cached("SELECT settled, done FROM progress")
        .expect("the tables can be read");
    let rows = rows.query_map([], |row| {
        Ok((row.get::<_, u64>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    for row in rows.expect("the tables can be read") {
        let (settled, done) = row.expect("a row of progress");
        let bits: u64 = done.iter().map(|byte| u64::from(byte.count_ones())).sum();
        ensure!(
            bits == settled,
            RECOUNT,
            "{settled} settled messages in {bits} bits"
        );
    }
    Ok(())
}

/// What is kept for reuse is bounded, once an alarm has tidied up.
pub fn tidy(host: &Host) -> Result<(), Broken> {
    let holds = number(host, "SELECT count(*) FROM hold") as usize;
    let bound = host.model.out() + MAX_SPARE_HOLD_ROWS;
    ensure!(
        holds <= bound,
        "13: storage is bounded",
        "{holds} hold rows for {} messages that are out",
        host.model.out()
    );
    let keys = number(host, "SELECT count(*) FROM recent_key") as usize;
    let bound = host.model.remembered_keys();
    ensure!(
        keys <= bound,
        "13: storage is bounded",
        "{keys} idempotency keys are kept, {bound} are remembered"
    );
    Ok(())
}

/// A queue from which everything was taken has nothing left.
pub fn drained(host: &mut Host) -> Result<(), Broken> {
    metrics(host)?;
    tables(host)?;
    let recount = host.model.recount();
    ensure!(
        recount == host.model.counters,
        "9: sent = acknowledged + dead-lettered + dropped + expired + purged + redriven",
        "\n  {recount:?}\n  {:?}",
        host.model.counters
    );
    ensure!(
        host.model.backlog() == 0,
        "2: lost 0, unexpected 0",
        "{} messages were never delivered",
        host.model.backlog()
    );
    Ok(())
}
