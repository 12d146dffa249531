//! The chores of the project, as `cargo xtask CHORE`. Each chore is a file; here they are only told apart.

mod bench;
mod ci;
mod discarding;
mod floor;
mod manners;
mod measure;
mod proof_bench;
mod reaper_bench;
mod reaper_floor;
mod reaper_tree;
mod shapes;
mod sweep;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask CHORE

chores:
  ci                                   all checks and all tests
  tidy                                 the rules of the house that no compiler knows
  bench [--runs N] [--cache-script S]  how fast `prune` answers, beside what the file system allows
  bench reaper [--runs N] [--only ROWS]
                                       the same for unattended sweeps; ROWS is live, large or owners
  bench proof [--runs N]               what the proof that nothing is lost costs, beside git
  bench discard [--runs N]             how fast a tree is removed, beside `rm -rf` and others
  bench pace [--seconds N]             what others feel meanwhile, on a slow file system";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["bench", options @ ..] => bench::build_and_run(options),
        // Those below are started by `bench`, in a release build.
        ["measure", "reaper", options @ ..] => reaper_bench::run(options),
        ["measure", "proof", options @ ..] => proof_bench::run(options),
        ["measure", options @ ..] => bench::run(options),
        ["floor", "--clone", clone] => floor::of_clone(clone.as_ref()),
        ["floor", cache] => floor::run(cache.as_ref()),
        ["sweep", cache, state, courtesy, per_second] => {
            sweep::run(cache.as_ref(), state.as_ref(), courtesy, per_second)
        }
        ["reaper-floor", depth, root] => reaper_floor::run(depth, root.as_ref()),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
