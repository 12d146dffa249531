//! Gives the parser `refs` any bytes at all.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (_, parser) = derelict_git::hostile::PARSERS
        .iter()
        .find(|(name, _)| *name == "refs")
        .expect("because every target has its parser");
    parser(bytes);
});
