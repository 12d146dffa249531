//! Every input that is kept for fuzzing, given to the parser it is kept for.

use std::path::Path;

use derelict_git::hostile::PARSERS;

#[test]
fn no_parser_is_led_astray_by_anything_in_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, parser) in PARSERS {
        let inputs = std::fs::read_dir(corpus.join(name)).expect("because each target has a corpus");
        let inputs: Vec<_> = inputs.map(|input| input.expect("because it can be listed").path()).collect();
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            let bytes = std::fs::read(&input).expect("because it is there");
            parser(&bytes);
            // Cut off anywhere, and with any one byte changed, it is another input of the same kind.
            for at in 0..bytes.len().min(600) {
                parser(&bytes[..at]);
                let mut other = bytes.clone();
                other[at] ^= 0x81;
                parser(&other);
            }
        }
    }
}

#[test]
fn every_parser_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).expect("because it is there");
    for (name, _) in PARSERS {
        assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name}");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}
