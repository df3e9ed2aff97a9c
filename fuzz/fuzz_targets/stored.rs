//! What rows and objects hold, and lease ids: nothing is read past its end, what is read is written
//! back the same, and no token is opened that wasn't sealed here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pullq::objects::internal::{parse_queue_object_name, EventSend, Handover};
use pullq::queue::holds::{decode_entries, encode_entries};
use pullq::queue::lease::Sealer;
use pullq::queue::ledger::Ledger;
use pullq::queue::record::Records;

fuzz_target!(|input: &[u8]| {
    if let Ok(ledger) = Ledger::decode(input) {
        let _ = (ledger.backlog_count(), ledger.backlog_bytes());
        assert_eq!(Ledger::decode(&ledger.encode()), Ok(ledger));
    }
    if let Ok(entries) = decode_entries(input) {
        assert_eq!(decode_entries(&encode_entries(&entries)), Ok(entries));
    }
    let mut records = Records::of(input);
    while let Ok(record) = records.next_record() {
        let mut payload = Vec::new();
        record.put(&mut payload);
        assert_eq!(Records::get(&payload, 0), Ok(record));
    }
    let _ = Records::get(input, 3);
    if let Ok(handover) = Handover::decode(input) {
        let encoded = handover.encode().expect("a handover");
        let again = Handover::decode(&encoded).expect("a handover");
        assert_eq!(again.encode().expect("a handover"), encoded);
    }
    if let Ok(event_send) = EventSend::decode(input) {
        event_send.encode().expect("a send");
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let sealer = Sealer::new(&[9; 32]);
        assert_eq!(sealer.open_lease(text), None);
        assert_eq!(sealer.open_ref(text), None);
        parse_queue_object_name(text);
    }
});
