//! `derelict demo`: the real `prune` on a small estate of real repositories in a temporary directory, for people who
//! have no cache yet. Nothing outside that directory is read or changed.
//!
//! What the estate consists of is in [`estate`]; how it is pruned is nobody's business here.

mod estate;
mod git;

use derelict_core::policy::{Force, Limits};

use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::host::Audience;
use crate::prune::{self, Format, Request, Wish};
use crate::report::Detail;
use crate::terms::Words;
use crate::text;

/// Builds the estate and prunes it; asks first if there is somebody to ask.
///
/// # Errors
/// A [`Failure`] when there is no git, or when the estate cannot be built.
pub(crate) fn run(audience: Audience, console: &mut Console) -> Result<Exit, Failure> {
    let progress = console.phase("building a small estate of real repositories");
    let estate = estate::build().map_err(Failure::usage)?;
    drop(progress);
    introduce(&estate, console);
    let request = Request {
        place: None,
        wish: match audience {
            Audience::Person => Wish::Ask,
            Audience::Nobody => Wish::Given,
        },
        force: Force::No,
        limits: Limits::NONE,
        grace: None,
        rescue: None,
        words: Words::default(),
        acknowledged: Vec::new(),
        format: Format::Human(Detail::Usual),
    };
    let exit = prune::run(&request, &estate.host(), console)?;
    console.out.flush();
    let stays = text::path(&estate.root);
    console.talk.remark(&format!("The estate stays in {stays}, to look around in; delete it when you are done."));
    Ok(exit)
}

fn introduce(estate: &estate::Estate, console: &mut Console) {
    let Console { out, paint, .. } = console;
    out.line(format_args!("A small estate of real clones was built in {}:", text::path(&estate.root)));
    for workspace in &estate::WORKSPACES {
        out.line(format_args!("  {}  {}", text::pad(workspace.id, estate::ID_COLUMNS), workspace.story));
    }
    out.blank();
    out.line(paint.heading("$ derelict prune"));
}
