//! `derelict prune`: survey, plan, consent, act, report. The order is the safety of it: whatever is shown is what is
//! agreed to, and until somebody agrees nothing is written anywhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use derelict_core::outcome::{Fate, StopReason};
use derelict_core::plan::Consent;
use derelict_core::policy::{Force, Limits};
use derelict_core::record::{Settled, SweepReport};

use crate::act::{Acting, Looks, Recoveries};
use crate::aftermath::{Aftermath, StaleRecords};
use crate::console::{Console, Reply};
use crate::estate::{Estate, Found, Surveyed};
use crate::exit::{Exit, Failure};
use crate::findings::{Findings, Work};
use crate::host::{Audience, Host};
use crate::report::Detail;
use crate::rescued::Place;
use crate::terms::Words;
use crate::{json, report, text};

/// What a person asked for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Where; the usual place without it.
    pub(crate) place: Option<PathBuf>,
    /// Who agrees, and when.
    pub(crate) wish: Wish,
    /// Whether unsaved work may go.
    pub(crate) force: Force,
    /// How much may go.
    pub(crate) limits: Limits,
    /// For how long it is set aside; `None` to discard it at once.
    pub(crate) grace: Option<Duration>,
    /// Where unsaved work is rescued to before it goes; `None` when it is not.
    pub(crate) rescue: Option<Place>,
    /// What the operator says of the clones.
    pub(crate) words: Words,
    /// The breakers that the operator knows of.
    pub(crate) acknowledged: Vec<String>,
    /// For whom the report is.
    pub(crate) format: Format,
}

/// Who agrees to the plan, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A person, when the plan is on the screen.
    Ask,
    /// A person, in advance, to whatever the plan will show.
    Given,
    /// Nobody, on purpose: the plan is all that is wanted.
    DryRun,
    /// Nobody, for nobody is there to be asked.
    CannotAsk,
}

/// For whom the report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// People.
    Human(Detail),
    /// Programs.
    Json,
}

impl Request {
    /// The request that the flags of the command line make.
    pub(crate) fn from_flags(flags: crate::cli::Prune, audience: Audience) -> Self {
        let wish = match (flags.yes, flags.dry_run, flags.json, audience) {
            (true, _, _, _) => Wish::Given,
            (false, true, _, _) => Wish::DryRun,
            (false, false, true, _) | (false, false, false, Audience::Nobody) => Wish::CannotAsk,
            (false, false, false, Audience::Person) => Wish::Ask,
        };
        let detail = if flags.verbose > 0 { Detail::Verbose } else { Detail::Usual };
        Self {
            place: flags.place,
            wish,
            force: match (flags.force, &flags.rescue) {
                (true, _) => Force::UnsavedAsShown,
                (false, Some(_)) => Force::UnsavedOnceRescued,
                (false, None) => Force::No,
            },
            limits: Limits { removals: flags.max_removals, entries: flags.max_entries, bytes: flags.max_bytes },
            grace: flags.quarantine,
            rescue: flags.rescue.map(Place::of),
            words: flags.words,
            acknowledged: flags.acknowledge,
            format: if flags.json { Format::Json } else { Format::Human(detail) },
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A [`Failure`] when no plan can be made, or when the journal cannot be opened; nothing has changed then.
pub(crate) fn run(request: &Request, host: &Host, console: &mut Console) -> Result<Exit, Failure> {
    let estate = match Estate::locate(request.place.as_deref(), host)? {
        Found::Estate(estate) => estate,
        Found::Nothing(place) => return Ok(nothing_there(request, &place, console)),
    };
    let rescue = estate.rescue_place(request.rescue.as_ref())?;
    let mut surveyed = estate.survey(request, console)?;
    let mut begun = None;
    if settles_first(request, &surveyed.findings) {
        let mut acting = Acting::begin(&estate, rescue.as_deref())?;
        let recoveries = acting.recover();
        begun = Some((acting, recoveries));
        surveyed = estate.survey(request, console)?;
    }
    show(request, &surveyed.findings, console);
    let decision = decide(request, &surveyed.findings, console);
    match decision {
        Decision::Leave(exit) => Ok(finish(request, &surveyed.findings, None, exit, console)),
        Decision::Stopped(stop) => {
            let recoveries = begun.map(|(_, recoveries)| recoveries);
            Ok(end_unbegun(request, &surveyed.findings, recoveries, stop, console))
        }
        Decision::Remember => {
            if let Err(error) = estate.remember(&surveyed.memory) {
                console.talk.remark(&format!("This run will not be remembered: {error:#}"));
            }
            match begun {
                None => {
                    let exit = surveyed.findings.exit_of_verdicts();
                    Ok(finish(request, &surveyed.findings, None, exit, console))
                }
                Some((_, recoveries)) => {
                    let stop = recoveries.lost().cloned().unwrap_or(StopReason::Finished);
                    Ok(end_unbegun(request, &surveyed.findings, Some(recoveries), stop, console))
                }
            }
        }
        Decision::Act(consent) => {
            let (acting, recoveries) = match begun {
                Some(begun) => begun,
                None => {
                    let mut acting = Acting::begin(&estate, rescue.as_deref())?;
                    let recoveries = acting.recover();
                    (acting, recoveries)
                }
            };
            match recoveries.lost().cloned() {
                Some(stop) => Ok(end_unbegun(request, &surveyed.findings, Some(recoveries), stop, console)),
                None => carry_out(request, acting, surveyed, consent, recoveries, console),
            }
        }
    }
}

/// What an earlier run left in hand is settled before a plan that was agreed to in advance is made, so that what is put
/// back is judged with the rest. A person who wants to see the plan first sees it first.
fn settles_first(request: &Request, findings: &Findings) -> bool {
    match request.wish {
        Wish::Given => !findings.unfinished.is_empty() && findings.stopped_by().is_none(),
        Wish::Ask | Wish::DryRun | Wish::CannotAsk => false,
    }
}

/// What follows from a plan and a wish.
enum Decision {
    /// Nothing is done.
    Leave(Exit),
    /// Removal was agreed to, and something forbids it.
    Stopped(StopReason),
    /// Nothing is to be done, and that was agreed to: the breakers remember it.
    Remember,
    /// The plan is carried out.
    Act(Consent),
}

fn decide(request: &Request, findings: &Findings, console: &mut Console) -> Decision {
    let seen = Consent::Operator { seen: findings.plan.digest() };
    let verdicts = findings.exit_of_verdicts();
    if let Some(breaker) = findings.stopped_by() {
        return match request.wish {
            Wish::Given => Decision::Stopped(StopReason::BreakerTripped(breaker.clone())),
            Wish::Ask | Wish::DryRun | Wish::CannotAsk => Decision::Leave(Exit::Stopped),
        };
    }
    match (request.wish, findings.work()) {
        (Wish::DryRun, Work::Some | Work::None) => Decision::Leave(verdicts),
        (Wish::Given, Work::None) => Decision::Remember,
        (Wish::Given, Work::Some) => Decision::Act(seen),
        (Wish::Ask | Wish::CannotAsk, Work::None) => Decision::Leave(Exit::Done),
        (Wish::CannotAsk, Work::Some) => {
            console.out.flush();
            console.talk.remark(
                "Nothing was changed: there is no terminal to ask on. Pass -y to agree to the plan in advance.",
            );
            Decision::Leave(Exit::Incomplete)
        }
        (Wish::Ask, Work::Some) => match console.ask(&question(findings)) {
            Reply::Yes => Decision::Act(seen),
            Reply::No => {
                console.out.line("Nothing was removed.");
                Decision::Leave(Exit::Done)
            }
        },
    }
}

/// The question is about directories when there are any, and else about what there is.
fn question(findings: &Findings) -> String {
    let removals = findings.plan.removals().len() as u64;
    let deed = if removals > 0 {
        let frees = findings.plan.frees();
        let verb = findings.grace.map_or("Remove", |_| "Set aside");
        format!("{verb} {} ({})", text::count(removals, text::DIRECTORY), text::row_size(&frees))
    } else if !findings.expired.is_empty() {
        let expired = text::count(findings.expired.len() as u64, text::DIRECTORY);
        format!("Discard {expired} set aside earlier")
    } else if !findings.stale_records.is_empty() {
        let records = text::count(findings.stale_records.len() as u64, text::RECORD);
        format!("Drop {records} of directories that are gone")
    } else {
        format!("Settle what an earlier run left at {}", text::count(findings.unfinished.len() as u64, text::DIRECTORY))
    };
    format!("{deed}? [y/N]")
}

fn carry_out(
    request: &Request,
    acting: Acting<'_>,
    surveyed: Surveyed,
    consent: Consent,
    recoveries: Recoveries,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let Surveyed { findings, observer, memory } = surveyed;
    let verdicts = findings.exit_of_verdicts();
    let approved =
        findings.plan.clone().approve(consent).context("cannot carry out the plan").map_err(Failure::stopped)?;
    let after = acting.sweep(&approved, request.grace, Looks { observer, memory }, &findings, recoveries, console);
    let exit = after.exit().max(verdicts);
    Ok(finish(request, &findings, Some(&after), exit, console))
}

/// Ends a run that was agreed to before its first removal.
fn end_unbegun(
    request: &Request,
    findings: &Findings,
    recoveries: Option<Recoveries>,
    stop: StopReason,
    console: &mut Console,
) -> Exit {
    let plan = &findings.plan;
    let removals = plan.removals().iter().map(|removal| (removal.judged(), Fate::NotReached));
    let beyond = plan.beyond_limit().iter().map(|removal| (removal.judged(), Fate::BeyondLimit));
    let kept = plan.kept().map(|judged| (judged, Fate::Kept(judged.verdict.clone())));
    let settled = removals.chain(beyond).chain(kept).map(|(judged, fate)| Settled {
        candidate: judged.candidate.clone(),
        intent: None,
        fate,
    });
    let after = Aftermath {
        report: SweepReport { settled: settled.collect(), stop },
        estimate: plan.frees(),
        measured: Some(0),
        stale: StaleRecords::Dropped(Vec::new()),
        recovered: recoveries.map_or_else(Vec::new, Recoveries::into_told),
        expired: Vec::new(),
        history: None,
    };
    let exit = after.exit().max(findings.exit_of_verdicts());
    finish(request, findings, Some(&after), exit, console)
}

fn show(request: &Request, findings: &Findings, console: &mut Console) {
    match request.format {
        Format::Human(detail) => report::plan(&mut console.out, console.paint, findings, detail),
        Format::Json => {}
    }
}

fn finish(
    request: &Request,
    findings: &Findings,
    after: Option<&Aftermath>,
    exit: Exit,
    console: &mut Console,
) -> Exit {
    match request.format {
        Format::Human(_) => {
            if let Some(after) = after {
                report::aftermath(&mut console.out, console.paint, after);
            }
            report::boundary(&mut console.out, console.paint);
        }
        Format::Json => console.out.line(json::prune(findings, after, exit)),
    }
    exit
}

fn nothing_there(request: &Request, place: &Path, console: &mut Console) -> Exit {
    let findings = Findings::nothing(place);
    show(request, &findings, console);
    finish(request, &findings, None, Exit::Done, console)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::findings::samples::{CLEAN, findings, judged, unsaved};

    fn wish(flags: &[&str], audience: Audience) -> Wish {
        let cli = Cli::try_parse_from(["derelict", "prune"].iter().chain(flags)).expect("because the flags exist");
        match cli.command {
            Command::Prune(flags) => Request::from_flags(flags, audience).wish,
            Command::Explain(_)
            | Command::History(_)
            | Command::Demo(_)
            | Command::Reap(_)
            | Command::Serve(_)
            | Command::Config(_)
            | Command::Quarantine(_)
            | Command::Rescued(_)
            | Command::Restore(_) => unreachable!("because `prune` was given"),
        }
    }

    #[test]
    fn only_a_person_at_a_terminal_is_asked_and_never_for_json() {
        assert_eq!(wish(&[], Audience::Person), Wish::Ask);
        assert_eq!(wish(&[], Audience::Nobody), Wish::CannotAsk);
        assert_eq!(wish(&["--json"], Audience::Person), Wish::CannotAsk);
        assert_eq!(wish(&["-n"], Audience::Person), Wish::DryRun);
        assert_eq!(wish(&["-y", "--json"], Audience::Nobody), Wish::Given);
    }

    #[test]
    fn the_question_says_how_much_goes() {
        let mut found = findings(vec![judged(b"a", 2048, CLEAN), judged(b"b", 1, unsaved())], Force::No);
        assert_eq!(question(&found), "Remove 1 directory (2.0 KiB)? [y/N]");
        found = findings(Vec::new(), Force::No);
        found.stale_records = vec!["a/b/c".into(), "a/b/d".into()];
        assert_eq!(question(&found), "Drop 2 records of directories that are gone? [y/N]");
    }
}
